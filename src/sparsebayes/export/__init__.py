"""Fitted models for other languages and small devices."""

from sparsebayes.export._errors import ExportError
from sparsebayes.export.c_header import CExport, export_c
from sparsebayes.export.onnx_model import OnnxExport, export_onnx

__all__ = ["CExport", "ExportError", "OnnxExport", "export_c", "export_onnx"]
