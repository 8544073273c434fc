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
from sparsebayes.rows.summary import Summary

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["ALL_ROWS", "STRUCTURE", "TENTH", "Journey", "Sampling", "sampling"]

STRUCTURE, TENTH, ALL_ROWS = "structure in a sample", "a tenth of the rows", "all rows"

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
        if summary.inputs is not None:
            facts |= {
                "inputs": sketch(summary.inputs.mean),
                "spread": sketch(summary.inputs.variance),
            }
        if summary.targets is not None:
            facts |= {"targets": sketch(summary.targets.mean)}
        if summary.labels is not None:
            facts |= {"labels": [str(label) for label in summary.labels.classes[:100].tolist()]}
        values = [np.asarray(value) for value in atoms.to_spec()[1].values()]
        facts |= {"atoms": atoms.size}
        facts |= {"dictionary": [sketch(value) for value in values if value.dtype.kind in "fiu"]}
        self._print = fingerprint(self.parameters, **facts)
        return self.checkpoint.read(self._print)

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


@dataclass(frozen=True)
class Sampling:
    """Rows and atoms that are looked at before all are."""

    structure: float  # fraction of the rows in which structure is sought
    atoms: IndexArray  # in which it is sought
    tenth: float | None  # fraction of the rows that come next; None where that step is left out


def sampling(n: int, atoms: int, budget: Budget) -> Sampling:
    """Choose rows and atoms that are looked at first.

    Parameters
    ----------
    n : int
        Number of rows.
    atoms : int
        Number of atoms.
    budget : Budget
        Memory.

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
    rows, count = budget.sample(atoms, min(n, most, max(least, int(fraction * n))))
    some = np.arange(atoms)
    if count < atoms:
        some = some[np.unique(np.linspace(0, atoms - 1, count).astype(np.intp))]
    tenth = min(_TENTH[0], _TENTH[1] / n)
    return Sampling(min(rows / n, 1.0), some, tenth if tenth * n >= 3 * rows else None)
