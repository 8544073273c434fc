"""Schmolck & Everson 2007, Smooth relevance vector machine (Machine Learning 68, 107-135)."""
