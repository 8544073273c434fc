"""The house: how large the package is, room by room, and how far one must walk to follow a fit.

``python -m benchmarks.house`` reads this checkout, ``python -m benchmarks.house TREE`` another one.
Sizes come from the source text; walks from fits that are run, with a profile of their calls.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks import _harness, _page

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "sparsebayes"
CORE = ("core", "solvers", "fit")  # rooms whose lines are added up

Functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True)
class Module:
    """One module: its dotted name, where it is, and its text."""

    name: str
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def room(self) -> str:
        """The folder below the package, or the package's root."""
        parts = self.name.split(".")
        folder = len(parts) > 2 or (len(parts) == 2 and self.path.stem == "__init__")
        return parts[1] if folder else "(root)"

    @property
    def n_lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def n_classes(self) -> int:
        return sum(isinstance(node, ast.ClassDef) for node in ast.walk(self.tree))

    @property
    def n_numbers(self) -> int:
        """How many module-level names are bound to a number, written or computed."""
        return sum(is_number(value) or is_computed(value) for value in bound(self.tree.body))

    @property
    def n_fields(self) -> int:
        """How many fields of classes have a number as their default."""
        classes = [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]
        return sum(is_number(value) for each in classes for value in bound(each.body))

    def imports(self, inside: bool) -> Iterator[tuple[str, list[str]]]:
        """Yield what is imported, as a module and names; ``inside`` counts functions' imports too.

        Imports for type checkers alone are left out.
        """
        waiting: list[ast.AST] = [self.tree]
        while waiting:
            for node in ast.iter_child_nodes(waiting.pop()):
                typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
                if typing_only or (isinstance(node, Functions) and not inside):
                    continue
                waiting.append(node)
                if isinstance(node, ast.Import):
                    yield from ((alias.name, []) for alias in node.names)
                elif isinstance(node, ast.ImportFrom):
                    yield self.origin(node), [alias.name for alias in node.names]

    def origin(self, node: ast.ImportFrom) -> str:
        """Return the absolute name of the module that names are imported from."""
        if not node.level:
            return node.module or ""
        here = self.name.split(".")
        drop = node.level - (self.path.stem == "__init__")
        return ".".join(here[: len(here) - drop] + ([node.module] if node.module else []))


def bound(body: Iterable[ast.stmt]) -> Iterator[ast.expr]:
    """Yield the values that statements bind to names."""
    for node in body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            yield node.value


def is_number(node: ast.expr) -> bool:
    """Whether an expression is a number, or arithmetic on numbers."""
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def is_computed(node: ast.expr) -> bool:
    """Whether an expression computes something from numbers in it, such as ``64 * EPS``."""
    computed = isinstance(node, ast.BinOp | ast.UnaryOp | ast.Call) and not is_number(node)
    return computed and any(
        isinstance(part, ast.Constant) and type(part.value) in (int, float)
        for part in ast.walk(node)
    )


def modules_of(tree: Path) -> dict[str, Module]:
    """Return the modules of a checkout's package by name."""
    source = tree / "src"
    found = {}
    for path in sorted((source / PACKAGE).rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, path, path.read_text())
    return found


def graph(modules: dict[str, Module], *, inside: bool) -> dict[str, set[str]]:
    """Return which modules of the package each one imports."""
    edges: dict[str, set[str]] = {}
    for module in modules.values():
        edges[module.name] = set()
        for origin, names in module.imports(inside):
            full = [f"{origin}.{name}" for name in names] or [origin]
            edges[module.name] |= {
                name if name in modules else origin for name in full if {name, origin} & {*modules}
            }
        edges[module.name].discard(module.name)
    return edges


def longest_chain(edges: dict[str, set[str]]) -> list[str]:
    """Return the longest path along imports; a way back into a cycle is not followed."""
    chains: dict[str, list[str]] = {}
    waiting: list[str] = []

    def chain(name: str) -> list[str]:
        if name not in chains:
            waiting.append(name)
            ways = [chain(other) for other in sorted(edges[name]) if other not in waiting]
            waiting.pop()
            chains[name] = [name, *max(ways, key=len, default=[])]
        return chains[name]

    return max((chain(name) for name in sorted(edges)), key=len, default=[])


def single(edges: dict[str, set[str]]) -> set[str]:
    """Return the modules that exactly one other module imports."""
    importers = Counter(name for targets in edges.values() for name in targets)
    return {name for name, count in importers.items() if count == 1}


def sizes(
    modules: dict[str, Module], tests: list[Path]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]:
    """Return the figures of the whole, those of the rooms, and the longest chain of imports."""
    chain = longest_chain(graph(modules, inside=False))
    alone = single(graph(modules, inside=True))
    rooms: dict[str, list[Module]] = {}
    for module in modules.values():
        rooms.setdefault(module.room, []).append(module)
    lines = {room: sum(module.n_lines for module in held) for room, held in rooms.items()}

    def row(name: str, held: list[Module]) -> dict[str, Any]:
        return {
            "room": name,
            "modules": len(held),
            "lines": sum(module.n_lines for module in held),
            "longest": max(module.n_lines for module in held),
            "classes": sum(module.n_classes for module in held),
            "numbers": sum(module.n_numbers for module in held),
            "in fields": sum(module.n_fields for module in held),
            "one importer": sum(module.name in alone for module in held),
        }

    table = [row(room, held) for room, held in sorted(rooms.items())]
    everything = row("all", list(modules.values()))
    whole = {
        "lines": everything["lines"],
        f"lines of {', '.join(CORE)}": sum(lines.get(room, 0) for room in CORE),
        "modules": everything["modules"],
        "classes": everything["classes"],
        "longest chain of imports": len(chain),
        "numbers bound at module level": everything["numbers"],
        "numbers in fields of classes": everything["in fields"],
        "modules with one importer": everything["one importer"],
        "their lines": sum(modules[name].n_lines for name in alone),
        "files of tests": len(tests),
        "lines of tests": sum(len(path.read_text().splitlines()) for path in tests),
    }
    return [{"": key, "figure": value} for key, value in whole.items()], [*table, everything], chain


# Walks


class Walk:
    """Which modules of the package a call enters, and along which pairs of modules."""

    def __init__(self) -> None:
        self.entered: dict[str, int] = {}  # module: calls, in the order of first entry
        self.hops: set[tuple[str, str]] = set()
        self.calls = 0

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Take note of one call, as `sys.setprofile` reports it."""
        if event != "call" or (module := home(frame)) is None:
            return
        self.calls += 1
        self.entered[module] = self.entered.get(module, 0) + 1
        back = frame.f_back
        while back is not None and (caller := home(back)) is None:
            back = back.f_back
        if back is not None and caller != module:
            self.hops.add((caller, module))

    def run(self, job: Callable[[], Any]) -> dict[str, Any]:
        """Follow one call, its threads too."""
        threading.setprofile(self.note)
        sys.setprofile(self.note)
        try:
            job()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
        return {"modules": list(self.entered), "hops": len(self.hops), "calls": self.calls}


def home(frame: FrameType) -> str | None:
    """Return the module of the package whose function a frame runs, or None."""
    name = frame.f_globals.get("__name__", "")
    inside = name == PACKAGE or name.startswith(f"{PACKAGE}.")
    return name if inside and frame.f_code.co_name != "<module>" else None


def walks(folder: Path) -> dict[str, dict[str, Any]]:
    """Follow four calls of users, each after a first one that imports all it needs."""
    import numpy as np

    from sparsebayes import RVC, RVR, denoise
    from sparsebayes.datasets import blocks, mixtures, sinc

    regression, classes = sinc(100, random_state=0), mixtures(100, random_state=0)
    many = sinc(1000, dim=2, random_state=0)
    np.save(folder / "X.npy", many.X)
    on_disk = np.load(folder / "X.npy", mmap_mode="r")
    signal = blocks(256, random_state=0).y
    jobs: dict[str, Callable[[], Any]] = {
        "RVR().fit": lambda: RVR().fit(regression.X, regression.y),
        "RVC().fit": lambda: RVC().fit(classes.X, classes.y),
        "a fit of a memory map": lambda: RVR(memory="100MB").fit(on_disk, many.y),
        "denoise": lambda: denoise(signal),
    }
    found = {}
    for name, job in jobs.items():
        job()
        found[name] = Walk().run(job)
    return found


def walks_of(tree: Path) -> dict[str, dict[str, Any]]:
    """Return the walks of a checkout, measured in a process that imports its package."""
    path = os.pathsep.join([str(tree / "src"), str(ROOT)])
    asked = [sys.executable, "-m", "benchmarks.house", "--walk-only"]
    done = subprocess.run(
        asked, env={**os.environ, "PYTHONPATH": path}, cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


# Output

ROOM_COLUMNS = {
    "room": "",
    "modules": "d",
    "lines": "d",
    "longest": "d",
    "classes": "d",
    "numbers": "d",
    "in fields": "d",
    "one importer": "d",
}


def show(
    heading: str, rows: list[dict[str, Any]], columns: dict[str, str], markdown: bool
) -> list[str]:
    """Return a heading and a table."""
    header, *lines = _harness.cells(rows, columns)
    if markdown:
        return [f"## {heading}", "", *_page.table(header, lines, text=1), ""]
    return [heading, _harness.table([header, *lines]), ""]


def listed(heading: str, names: list[str], markdown: bool) -> list[str]:
    """Return a heading and names of modules in order, without the package's."""
    short = [name.removeprefix(f"{PACKAGE}.") for name in names]
    if markdown:
        return [f"### {heading}", "", " → ".join(f"`{name}`" for name in short), ""]
    return [heading, "  " + "\n  ".join(short), ""]


def drawing(tree: Path, walked: dict[str, dict[str, Any]], markdown: bool) -> list[str]:
    """Return the house as lines of text."""
    modules = modules_of(tree)
    if not modules:
        raise SystemExit(f"{tree / 'src' / PACKAGE}: there is no package")
    whole, rooms, chain = sizes(modules, sorted((tree / "tests").rglob("*.py")))
    lines = ["# The house", ""] if markdown else []
    lines += show("The whole", whole, {"": "", "figure": "d"}, markdown)
    lines += show("Rooms", rooms, ROOM_COLUMNS, markdown)
    lines += listed("Longest chain of imports", chain, markdown)
    if walked:
        table = [
            {"call": name} | found | {"modules": len(found["modules"])}
            for name, found in walked.items()
        ]
        columns = {"call": "", "modules": "d", "hops": "d", "calls": "d"}
        heading = "Walks: modules entered, pairs of modules that call each other, calls"
        lines += show(heading, table, columns, markdown)
        for name, found in walked.items():
            lines += listed(f"Modules that {name} enters, in order", found["modules"], markdown)
    return lines[:-1]


def main() -> None:
    parser = argparse.ArgumentParser(description="Sizes of the package, and walks through it")
    parser.add_argument("tree", nargs="?", type=Path, default=ROOT, help="a checkout; this one")
    parser.add_argument("--markdown", action="store_true", help="as a page")
    parser.add_argument("--no-walks", action="store_true", help="sizes alone; nothing is fitted")
    parser.add_argument("--walk-only", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.walk_only:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(walks(Path(folder))))
        return
    tree = args.tree.resolve()
    print("\n".join(drawing(tree, {} if args.no_walks else walks_of(tree), args.markdown)))


if __name__ == "__main__":
    main()
