"""The core: quadratics, and what they are made of."""
