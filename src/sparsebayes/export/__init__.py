"""Fitted models for other languages and small devices."""

from sparsebayes.export._errors import ExportError

__all__ = ["ExportError"]
