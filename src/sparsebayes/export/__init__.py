"""Fitted models for other languages and small devices."""

from sparsebayes.export._errors import ExportError
from sparsebayes.export.onnx_model import OnnxExport, export_onnx

__all__ = ["ExportError", "OnnxExport", "export_onnx"]
