"""Ablation: every part of the search switched off, every number of it halved and doubled.

``python -m benchmarks.ablation`` fits the families of `benchmarks.golden` whose results a search
decides, once as the search is and once with each change, the changes taking turns fit by fit, and
prints what each changes: objective, test error and CPU time, family by family. A part earns its
place with half a nat in the median of a family, one percent of error, or a tenth of the time.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import warnings
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import golden
from benchmarks._harness import Report, argument_parser
from sparsebayes import RVC, RVR
from sparsebayes.engine import Breakdown
from sparsebayes.solvers import search

FAMILIES = (
    *("reference", "sinc", "Friedman", "wide", "sparse", "null", "unions", "learned", "classes"),
    *("rows", "targets"),
)

Change = dict[tuple[Any, str], Any]


def _breaks(*_: Any, **__: Any) -> Any:
    raise Breakdown


def parts() -> dict[str, Change]:
    """Every part of the search, and what stands in its place where it is off."""
    return {
        "no crowd": {(search, "_crowd"): _breaks},
        "no growth beside it": _no_growth_beside_a_crowd(),
        "no fierce crowd": {(search, "_fierce_crowd"): lambda *_: None},
        "no moves": {(search, "improved"): lambda run, state, noise: state},
        "no mild moves": {(search, "SETTINGS"): _with(schedule=search.SETTINGS.schedule[1:])},
        "no fierce moves": {(search, "SETTINGS"): _with(schedule=search.SETTINGS.schedule[:1])},
        "none among neighbors": {(search, "is_smooth"): lambda run, state: False},
        "no detours": {(search, "_detour"): lambda *_: None},
        "no pool at the end": {(search, "_nearby"): lambda run, state, noise, tol: state},
        "no strides at the end": {(search, "stride"): lambda run, before, state, *_: state},
        "no last steps by the gradient": {(search, "polished"): lambda p, state, *_: state},
    }


def _no_growth_beside_a_crowd() -> Change:
    crowd, grown = search._crowd, search._grown
    last: list[Any] = [None, None]  # a fit, and what its crowd led to

    def kept(run: Any, noise: Any, rng: Any) -> Any:
        last[:] = [None, None]
        last[:] = [run, crowd(run, noise, rng)]
        return last[1]

    def only_where_no_crowd(run: Any, noise: Any, rng: Any) -> Any:
        if last[0] is run:  # the same once more, so low that no search goes on from it
            return replace(last[1], objective=-np.inf)
        return grown(run, noise, rng)

    return {(search, "_crowd"): kept, (search, "_grown"): only_where_no_crowd}


def _with(**changed: Any) -> search.Settings:
    return search.SETTINGS._replace(**changed)


def numbers() -> dict[str, Change]:
    """Every number of the search, halved and doubled."""
    changes = {}
    for name, value in search.SETTINGS._asdict().items():
        for factor, word in ((0.5, "half"), (2.0, "twice")):
            for label, changed in _scaled(name, value, factor):
                changes[f"{label}: {word}"] = {(search, "SETTINGS"): _with(**{name: changed})}
    return changes


def _scaled(name: str, value: Any, factor: float) -> Iterator[tuple[str, Any]]:
    """A number times a factor; of several in a tuple each in turn."""
    if isinstance(value, bool):
        return
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", [str(i + 1) for i in range(len(value))])
        for i, part in enumerate(value):
            if part == 1.0 and name == "schedule":  # a mild move, a noise that is not cut
                continue
            for label, changed in _scaled(fields[i], part, factor):
                items = [*value[:i], changed, *value[i + 1 :]]
                yield f"{name} {label}" if name != label else name, _like(value, items)
        return
    yield name, max(1, round(value * factor)) if isinstance(value, int) else value * factor


def _like(value: Any, items: Sequence[Any]) -> Any:
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


@contextmanager
def changed(change: Change) -> Iterator[None]:
    """The search with a change; modules that keep its settings get them, too."""
    kept = []
    for (module, name), value in change.items():
        old = getattr(module, name)
        for other in list(sys.modules.values()):
            if other.__name__.startswith("sparsebayes.") and getattr(other, name, None) is old:
                kept.append((other, name, old))
                setattr(other, name, value)
    try:
        yield
    finally:
        for other, name, old in kept:
            setattr(other, name, old)


def effects(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What a change does, over all fits of a family."""

    def values(key: str) -> list[float]:
        return [row[key] for row in rows if row[key] is not None]

    nats, errors = values("nats"), values("error ratio")
    before, after = sum(values("before s")), sum(values("after s"))
    return {
        "fits": len(rows),
        "median nats": float(np.median(nats)) if nats else None,
        "sum": sum(nats) if nats else None,
        "worst": min(nats, default=None),
        "mean error": float(np.exp(np.mean(np.log(errors)))) if errors else None,
        "time": after / before if before else None,
        "other status": sum(bool(row["status"]) for row in rows),
    }


COLUMNS = {
    "change": "",
    "family": "",
    "fits": "d",
    "median nats": "+.2f",
    "sum": "+.1f",
    "worst": "+.1f",
    "mean error": ".3f",
    "time": ".2f",
    "other status": "d",
}


def run(args: Namespace) -> list[dict[str, Any]]:
    """Fit everything once as it is and once with each change."""
    changes = parts() | numbers()
    if args.only:
        changes = {key: value for key, value in changes.items() if key in args.only}
        if not changes:
            raise SystemExit(
                f"no change is called {args.only[0]!r}; there are {', '.join(parts())}"
            )
    rows = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X, y = golden.imported()
        RVR().fit(X, y), RVC().fit(X, y > 0)
        for fit in golden.fits(Path(folder), args.families):
            gc.collect()
            plain = golden.measured(fit, args.repeats)
            for name, change in changes.items():
                with changed(change):
                    found = golden.measured(fit, args.repeats)
                rows.append(golden.compared(plain, found) | {"change": name})
            print(f"  {fit.key}", flush=True)
    return rows


def main() -> None:
    parser = argument_parser("The search with parts off and numbers halved and doubled", 1)
    parser.add_argument("--only", nargs="+", metavar="CHANGE", help="changes; default all")
    parser.add_argument("--families", nargs="+", default=FAMILIES, help="families of fits")
    args = parser.parse_args()
    report = Report.open("Ablation of the search", args.threads)
    rows = run(args)
    changes = list(dict.fromkeys(row["change"] for row in rows))
    families = list(dict.fromkeys(row["family"] for row in rows))
    for heading, some in (("Parts off", parts()), ("Numbers halved and doubled", numbers())):
        table = []
        for change in changes:
            if change in some:
                own = [row for row in rows if row["change"] == change]
                table.append({"change": change, "family": "all"} | effects(own))
        if table:
            report.show(heading, table, COLUMNS)
    table = []
    for change in changes:
        for family in families:
            own = [row for row in rows if (row["change"], row["family"]) == (change, family)]
            line = {"change": change, "family": family} | effects(own)
            if _counts(line):
                table.append(line)
    if table:
        report.show(
            "Families that feel it: half a nat, 1 % of error or 10 % of time", table, COLUMNS
        )
    report.close(args)


def _counts(line: dict[str, Any]) -> bool:
    """Whether a family feels a change."""
    nats, error, time = line["median nats"], line["mean error"], line["time"]
    return (
        (nats is not None and abs(nats) >= 0.5)
        or (error is not None and abs(error - 1) >= 0.01)
        or (time is not None and abs(time - 1) >= 0.1)
    )


if __name__ == "__main__":
    main()
