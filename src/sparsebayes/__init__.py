"""Sparse Bayesian learning: the few basis functions the data support, with error bars."""

__version__ = "0.1.0"

__all__ = ["__version__"]
