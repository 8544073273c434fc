"""From checked data to a fitted model."""
