"""Reports of fitted models: one HTML file that opens offline."""

from sparsebayes.reporting.report import Report, make_report

__all__ = ["Report", "make_report"]
