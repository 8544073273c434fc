"""The text of a C header: numbers, strings, comments and tables that mean what they should."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsebayes.export._errors import ExportError

__all__ = ["Source", "as_comment", "as_string"]

_WIDTH = 98
_LONGEST_NAME = 60  # characters of a user's text in a comment
_LONGEST_STRING = 4095  # bytes that every C99 compiler takes
_KINDS: dict[str, tuple[str, str, Any]] = {
    "single": ("float", "f", np.float32),
    "double": ("double", "", np.float64),
}


class Source:
    """A header in the making: its tables and functions, and how large they are.

    Parameters
    ----------
    name : str
        What all its names begin with.
    precision : {"double", "single"}
        Type of all its numbers.
    """

    def __init__(self, name: str, precision: str) -> None:
        self.name = name
        self.type_name, self.suffix, self._kind = _KINDS[precision]
        self.real = f"{name}_real"
        self.single = precision == "single"
        self.tables: list[str] = []
        self.functions: list[str] = []
        self.table_bytes = 0

    @property
    def item_bytes(self) -> int:
        """Bytes of a number."""
        return 4 if self.single else 8

    def number(self, value: Any) -> str:
        """A literal of the header's type, which reads back as the same number."""
        self._check(np.asarray(value, dtype=np.float64))
        return f"{self._kind(value)!s}{self.suffix}"

    def function(self, template: str, **values: Any) -> None:
        """Add code, in which ``@key@`` stands for a value and another ``@`` for the header's name.

        ``R`` is the header's type, ``exp`` and its like get the suffix of the precision, and so do
        numbers with a point.
        """
        text = textwrap.dedent(template).strip("\n")
        for key, value in values.items():
            text = _filled(text, f"@{key}@", str(value))
        text = re.sub(r"\bR\b", self.real, text)
        if self.single:
            text = re.sub(r"\b(exp|expm1|log|sqrt|fabs|tanh|sin|pow|erfc|hypot)\(", r"\1f(", text)
            text = re.sub(r"(?<![\w.])(\d+\.\d+(?:e[-+]?\d+)?)(?![\w.])", r"\1f", text)
        self.functions.append(re.sub(r"@(?=\w)", f"{self.name}_", text))

    def table(self, label: str, values: ArrayLike, about: str) -> str:
        """Add a table of numbers; its name."""
        array = np.asarray(values, dtype=np.float64).ravel()
        self._check(array)
        items = [f"{item!s}{self.suffix}" for item in array.astype(self._kind)]
        return self._table(self.real, label, items, about, self.item_bytes)

    def indices(self, label: str, values: NDArray[np.intp], about: str) -> str:
        """Add a table of positions; its name."""
        small = int(values.max(initial=0)) < 2**16
        kind, size = ("unsigned short", 2) if small else ("unsigned long", 8)
        return self._table(kind, label, [str(int(value)) for value in values], about, size)

    def strings(self, label: str, values: list[str], about: str) -> str:
        """Add a table of strings; its name."""
        items = [as_string(value) for value in values]
        self.table_bytes += sum(len(value.encode("utf-8", "surrogatepass")) for value in values)
        size = 9  # a pointer, and the zero at the end
        return self._table("char *const", label, items, about, size)

    def _table(self, kind: str, label: str, items: list[str], about: str, size: int) -> str:
        name = f"{self.name}_{label}"
        lines, line = [], "   "
        for item in items:
            if len(line) + len(item) > _WIDTH and line.strip():
                lines.append(line)
                line = "   "
            line += f" {item},"
        body = "\n".join([*lines, line.removesuffix(",")])
        self.tables.append(
            f"/* {about} */\nstatic const {kind} {name}[{len(items)}] = {{\n{body}\n}};"
        )
        self.table_bytes += size * len(items)
        return name

    def _check(self, array: NDArray[np.float64]) -> None:
        """Refuse numbers that the precision does not have."""
        limits = np.finfo(self._kind)
        largest = float(np.abs(array).max(initial=0.0))
        if not largest <= float(limits.max) or 0 < largest < float(limits.tiny):
            raise ExportError(
                f"a number of this model, {largest:.3g}, is outside the range of {self.type_name}: "
                + ('use precision="double"' if self.single else "scale inputs and targets")
            )


def _filled(text: str, mark: str, value: str) -> str:
    """The text with a value for each mark, its lines indented as the one that the mark is in."""
    lines = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        lines.append(line.replace(mark, value.replace("\n", f"\n{indent}")))
    return "\n".join(lines)


def as_comment(text: str) -> str:
    """A user's text as a part of a C comment: it cannot end it, nor look like something else."""
    shown = "".join(c if c.isprintable() else _escaped(c) for c in text)
    if len(shown) > _LONGEST_NAME:
        shown = f"{shown[:_LONGEST_NAME]}..."
    for two in ("*/", "/*", "??"):
        while two in shown:
            shown = shown.replace(two, f"{two[0]} {two[1]}")
    return shown.rstrip("\\")


def _escaped(character: str) -> str:
    code = ord(character)
    return f"<U+{code:04X}>"


def as_string(text: str) -> str:
    """A C string literal of the text in UTF-8."""
    raw = text.encode("utf-8", "surrogatepass")
    if 0 in raw:
        raise ExportError(f"the label {text!r} holds a zero character, where a C string ends")
    if len(raw) > _LONGEST_STRING:
        raise ExportError(
            f"the label {text[:20]!r}... has {len(raw)} bytes; C99 has strings of up to "
            f"{_LONGEST_STRING}"
        )
    plain = set(range(32, 127)) - set(b'"\\?')
    return '"' + "".join(chr(c) if c in plain else f"\\{c:03o}" for c in raw) + '"'
