"""A long fit on its way: where it stands is kept, told, and returned if it is interrupted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._memory import Budget
from sparsebayes.checkpoints import Checkpoint, Saved, fingerprint, sketch
from sparsebayes.dictionaries import Atoms
from sparsebayes.progress import Watch
from sparsebayes.rows.blocks import Chosen
from sparsebayes.rows.summary import Summary

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = [
    "ALL_ROWS",
    "IN_ROUNDS",
    "REFERENCE",
    "ROUGH",
    "SEED",
    "STRUCTURE",
    "TENTH",
    "Journey",
    "Sampling",
    "sampling",
]

STRUCTURE, TENTH, ALL_ROWS = "structure in a sample", "a tenth of the rows", "all rows"

ROUGH = 0.05
"""Nats left on the table where not all rows are looked at."""

REFERENCE = 1000
"""Rows that tell about where the means of atoms are."""

IN_ROUNDS = ("auto", "working-set")
"""Solvers that need not look at all rows and atoms at every step."""

SEED = 1
"""Of the rows, and the atoms, that are looked at where not all are."""

_SPAN_ROWS = 2  # rows for each atom, from which on fewer atoms in a pass are worth a search
_STRUCTURE = 0.01, 10_000, 20_000  # fraction of the rows, at least and at most, that comes first
_TENTH = 0.1, 1_000_000  # the next step; left out where it is less than three times the first


@dataclass
class Journey:
    """What a fit of rows was told by its user, and where it stands.

    Parameters
    ----------
    budget : Budget
        Memory and threads.
    watch : Watch
        Whom progress is told.
    checkpoint : Checkpoint or None
        Where the place is kept.
    parameters : dict
        Constructor parameters of the estimator, which a checkpoint must agree with.
    returns : bool, default=False
        Whether an interruption ends the fit with the last good model.
    screened : float, default=1.0
        Fraction of the atoms that the certificate is to cover.
    """

    budget: Budget
    watch: Watch
    checkpoint: Checkpoint | None
    parameters: Mapping[str, Any]
    returns: bool = False
    screened: float = 1.0
    _print: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def lasting(self) -> bool:
        """Whether the fit is to survive what may happen to it: then it works in short steps."""
        return self.checkpoint is not None or self.returns

    def seeks_span(self, rows: int, atoms: int) -> bool:
        """Whether to look for few atoms that all others are sums of: it costs some M^3.

        Parameters
        ----------
        rows : int
            Number of rows.
        atoms : int
            Number of atoms M.

        Returns
        -------
        bool
            The answer.
        """
        return self.budget.holds_gram(atoms) and rows >= _SPAN_ROWS * atoms

    def resume(self, summary: Summary, atoms: Atoms) -> Saved | None:
        """Where an earlier fit of the same rows and atoms stood, if it is to be continued.

        Parameters
        ----------
        summary : Summary
            What a first look at the rows has found.
        atoms : Atoms
            The bound dictionary.

        Returns
        -------
        Saved or None
            None where the fit begins anew.
        """
        if self.checkpoint is None:
            return None
        facts: dict[str, Any] = {"rows": summary.n, "weight": summary.weight}
        for name, moments in (("inputs", summary.inputs), ("targets", summary.targets)):
            if moments is not None:
                spread = np.sqrt(moments.variance)
                # Means beside spreads: one that is zero but for rounding tells nothing.
                facts[f"mean of {name}"] = sketch(np.concatenate([moments.mean, spread]))
                facts[f"spread of {name}"] = sketch(spread)
        if summary.labels is not None:
            facts["labels"] = [str(label) for label in summary.labels.classes[:100].tolist()]
            facts["rows of labels"] = summary.labels.counts[:100].tolist()
        facts |= {"number of atoms": atoms.size, "atoms": _sketches(atoms, summary)}
        self._print = fingerprint(self.parameters, **facts)
        return self.checkpoint.read(self._print)

    def subsets(self, atoms: int, columns: int = 1) -> list[IndexArray]:
        """Divide the atoms to be screened into subsets that fit into memory.

        Parameters
        ----------
        atoms : int
            Number of atoms.
        columns : int, default=1
            Columns of each atom.

        Returns
        -------
        list of arrays of int
            Atoms of each subset, ascending; the same ones always.
        """
        # One in so many atoms, where not all are to be screened.
        drawn = Chosen(self.screened, SEED).draws(0, atoms) < self.screened
        universe = np.flatnonzero(drawn)
        if not universe.size:
            universe = np.arange(min(atoms, 1))
        count = max(1, -(-universe.size // self.budget.subset(columns)))
        return [universe[subset::count] for subset in range(count)]

    def keep(
        self, stage: str, turn: int, numbers: Mapping[str, float], arrays: Mapping[str, Any]
    ) -> None:
        """Write where the fit stands.

        Parameters
        ----------
        stage : str
            Which rows it looks at.
        turn : int
            Screens so far.
        numbers, arrays : dict
            The place.
        """
        if self.checkpoint is not None:
            saved = Saved(stage, turn, dict(numbers), dict(arrays))
            self.checkpoint.write(self._print, saved)


def _sketches(atoms: Atoms, summary: Summary) -> list[list[float]]:
    """What tells atoms from others: their numbers, or their values where these are not known."""
    try:
        values = [np.asarray(value) for value in atoms.to_spec()[1].values()]
    except (AttributeError, NotImplementedError, TypeError, ValueError):
        if summary.inputs is None:
            return []
        mean, spread = summary.inputs.mean, np.sqrt(summary.inputs.variance)
        values = [np.asarray(atoms.evaluate(np.stack([mean, mean + spread, mean - spread])))]
    return [sketch(value) for value in values if value.dtype.kind in "fiu"]


@dataclass(frozen=True)
class Sampling:
    """Rows and atoms that are looked at before all are."""

    structure: float  # fraction of the rows in which structure is sought
    atoms: IndexArray  # in which it is sought
    tenth: float | None  # fraction of the rows that come next; None where that step is left out


def sampling(n: int, atoms: int, budget: Budget, width: int = 0) -> Sampling:
    """Choose rows and atoms that are looked at first.

    Parameters
    ----------
    n : int
        Number of rows of positive weight.
    atoms : int
        Number of atoms.
    budget : Budget
        Memory.
    width : int, default=0
        Numbers of X that are kept with each row.

    Returns
    -------
    Sampling
        Fractions of rows, and atoms.

    Examples
    --------
    >>> plan = sampling(1_000_000, 2000, Budget(2**30, 2))
    >>> plan.structure, plan.atoms.size, plan.tenth
    (0.01, 2000, 0.1)
    """
    fraction, least, most = _STRUCTURE
    most = min(most, max(1, budget.rows_kept(width)))
    rows, count = budget.sample(atoms, min(n, most, max(least, int(fraction * n))))
    some = np.arange(atoms)
    if count < atoms:
        some = some[np.unique(np.linspace(0, atoms - 1, count).astype(np.intp))]
    tenth = min(_TENTH[0], _TENTH[1] / n)
    return Sampling(min(rows / n, 1.0), some, tenth if tenth * n >= 3 * rows else None)
