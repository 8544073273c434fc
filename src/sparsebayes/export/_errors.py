"""The error of a model that another language cannot express."""

__all__ = ["ExportError"]


class ExportError(ValueError):
    """A fitted model, or a part of it, that cannot be exported; the message says why.

    Examples
    --------
    >>> from sparsebayes.export import ExportError
    >>> issubclass(ExportError, ValueError)
    True
    """
