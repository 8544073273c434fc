"""Benchmarks, run as ``python -m benchmarks.NAME`` from the project's root (see README.md)."""
