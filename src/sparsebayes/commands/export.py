"""``sparsebayes export``: a model as a C header or an ONNX file."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from typing import Any

from sparsebayes.commands._options import RawText
from sparsebayes.commands._summary import Summary, add_summary_options
from sparsebayes.commands._tables import refuse_overwriting

_FORMATS = {".h": "c", ".onnx": "onnx"}

_EPILOG = """\
examples:
  sparsebayes export fan.model --output fan.h --name fan --precision single
      one C99 header with fan_predict(), for a small device
  sparsebayes export houses.model --output houses.onnx
      for every runtime of ONNX: mean and standard deviation, or classes and
      their probabilities
  sparsebayes export fan.model --output - --format c | gcc -x c -fsyntax-only -

The format follows from the name of the file, .h or .onnx. Kernels known by name,
linear models and sums of them are exported; what is not, such as a precomputed
kernel, is refused with the reason. Writing ONNX needs the package onnx:
pip install "sparsebayes[onnx]". "sparsebayes info MODEL" tells what is possible.
"""


def add(commands: Any) -> None:
    """Add the command to a parser.

    Parameters
    ----------
    commands : subparsers of argparse
        Of the program's parser.
    """
    export = commands.add_parser(
        "export",
        help="write a model as a C header or an ONNX file",
        description="Write a fitted model as a C header or an ONNX file.",
        epilog=_EPILOG,
        formatter_class=RawText,
    )
    export.add_argument("model", metavar="MODEL", help="file written by sparsebayes fit")
    export.add_argument(
        "--output",
        metavar="FILE",
        required=True,
        help="file to write, NAME.h or NAME.onnx, or - for stdout",
    )
    export.add_argument(
        "--format",
        choices=tuple(_FORMATS.values()),
        metavar="FORMAT",
        help="c or onnx (default: what the name of the file ends in)",
    )
    export.add_argument(
        "--precision",
        choices=("double", "single"),
        metavar="PRECISION",
        default="double",
        help="of the numbers: double or single (default: %(default)s)",
    )
    export.add_argument(
        "--name",
        default="model",
        help="what names of C functions begin with, or the name of the ONNX graph "
        "(default: %(default)s)",
    )
    add_summary_options(export)


def run(arguments: argparse.Namespace) -> None:
    """Run ``sparsebayes export``.

    Parameters
    ----------
    arguments : Namespace
        From the parser.
    """
    kind = arguments.format or _kind(arguments.output)
    to_stdout = arguments.output == "-"
    from sparsebayes._files import check_place

    if not to_stdout:
        check_place(arguments.output)
        refuse_overwriting(arguments.output, arguments.model)
    from sparsebayes import persistence
    from sparsebayes.export import export_c, export_onnx

    stored = persistence.read_model(arguments.model)
    options = {"precision": arguments.precision, "name": arguments.name}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "stdout") if to_stdout else arguments.output
        written: Any
        if kind == "c":
            written = export_c(stored.model, path, **options)
        else:
            try:
                names = stored.target_names
                written = export_onnx(stored.model, path, target_names=names, **options)
            except ImportError as error:
                raise ValueError(str(error)) from None
        if to_stdout:
            with open(path, "rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
    found = Summary(f"{arguments.model} as {'a C header' if kind == 'c' else 'an ONNX file'}")
    found.facts(model=arguments.model, format=kind, precision=arguments.precision)
    (_describe_c if kind == "c" else _describe_onnx)(found, written)
    found.line("written", "to stdout" if to_stdout else path, output=arguments.output)
    found.show(arguments)


def _kind(path: str) -> str:
    """Tell the format by the name of the file."""
    kind = _FORMATS.get(os.path.splitext(path)[1].lower())
    if kind is None:
        wanted = "for stdout, --format c or onnx is needed"
        if path != "-":
            wanted = "a name that ends in .h or .onnx is needed, or --format c or onnx"
        raise ValueError(f"--output {path}: {wanted}")
    return kind


def _describe_c(found: Summary, written: Any) -> None:
    found.line("functions", ", ".join(written.functions), functions=written.functions)
    found.line(
        "size",
        f"{written.data_bytes} bytes of tables, {written.stack_bytes} of stack, "
        f"{written.source_bytes} of source",
        data_bytes=written.data_bytes,
        stack_bytes=written.stack_bytes,
        source_bytes=written.source_bytes,
    )


def _describe_onnx(found: Summary, written: Any) -> None:
    columns = len(written.inputs)
    found.line("input", f"X of shape (rows, {columns})", inputs=written.inputs)
    found.line("outputs", ", ".join(written.outputs), outputs=written.outputs)
    found.line("operators", f"opset {written.opset}", opset=written.opset)
    found.line("size", f"{written.file_bytes} bytes", file_bytes=written.file_bytes)
