"""What is known of rows before atoms are: how many, how large, which labels. And a few of them."""

from dataclasses import dataclass, replace
from functools import reduce
from operator import itemgetter
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sparsebayes._labels import plain
from sparsebayes._samples import check_total_weight
from sparsebayes.dictionaries._protocol import is_sparse
from sparsebayes.rows.blocks import Block, Chosen, FloatArray, Rows
from sparsebayes.rows.moments import Moments, moments

__all__ = ["Gathered", "Labels", "Summary", "gather", "summarize"]

_MOST_LABELS = 1 << 16
_KEPT = 1 << 18  # columns and labels of summaries that wait for those before them


@dataclass(frozen=True)
class Labels:
    """Labels that occur, in order, and how often."""

    classes: NDArray[Any]  # (K,)
    counts: NDArray[np.intp]  # (K,) rows of positive weight
    weights: FloatArray  # (K,) sums of weights; rows of weight zero have a label too

    def plus(self, other: Self) -> Self:
        """Both lots of labels.

        Parameters
        ----------
        other : Labels
            Of labels that can be sorted among these.

        Returns
        -------
        Labels
            The union.
        """
        texts = {_is_text(part) for part in (self.classes, other.classes)}
        joined = np.concatenate([self.classes, other.classes]) if len(texts) == 1 else None
        if joined is None:
            # NumPy would turn numbers among text into text.
            listed = [*self.classes.tolist(), *other.classes.tolist()]
            joined = np.array([*listed, None], dtype=object)[:-1]
        classes, place = _unique(joined)
        counts = np.zeros(classes.size, dtype=np.intp)
        weights = np.zeros(classes.size)
        np.add.at(counts, place, np.concatenate([self.counts, other.counts]))
        np.add.at(weights, place, np.concatenate([self.weights, other.weights]))
        return type(self)(classes, counts, weights)


@dataclass(frozen=True)
class Summary:
    """What one pass finds of rows, without atoms."""

    n: int  # rows, also of weight zero
    n_used: int  # rows of positive weight
    inputs: Moments | None  # of the columns of X; None while every weight was zero
    targets: Moments | None  # of the columns of y; None where they are labels
    labels: Labels | None
    n_targets: int  # columns of y, 0 where it is one-dimensional
    weighted: bool  # whether a weight is not one
    sparse: bool = False  # whether X is

    @property
    def weight(self) -> float:
        """Total weight: the number of samples."""
        return 0.0 if self.inputs is None else self.inputs.weight

    @property
    def size(self) -> int:
        """Columns and labels that it is of."""
        columns = [len(part.reference) for part in (self.inputs, self.targets) if part is not None]
        return sum(columns) + (0 if self.labels is None else len(self.labels.classes))

    @property
    def width(self) -> int:
        """Columns of X; zero where it is sparse, and a row takes little memory."""
        return 0 if self.sparse or self.inputs is None else len(self.inputs.reference)

    @property
    def variance(self) -> float | None:
        """Variance of all entries of X, which gamma="scale" needs; None where X is constant."""
        inputs = self.inputs
        if inputs is None or inputs.low.min() == inputs.high.max():
            return None
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            # Differences of means, not of rounded means: those of 1e8 and more differ by less.
            mean = (inputs.reference - inputs.reference[0]) + inputs.first / inputs.weight
            return float(np.mean(inputs.variance + (mean - mean.mean()) ** 2))

    def plus(self, other: Self) -> Self:
        """Summary of both lots of rows.

        Parameters
        ----------
        other : Summary
            Of the same kind.

        Returns
        -------
        Summary
            Of all.
        """
        return replace(
            self,
            n=self.n + other.n,
            n_used=self.n_used + other.n_used,
            inputs=_both(self.inputs, other.inputs),
            targets=_both(self.targets, other.targets),
            labels=_both(self.labels, other.labels),
            weighted=self.weighted or other.weighted,
        )


def _both(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return one if other is None else other
    return one.plus(other)


@dataclass(frozen=True)
class _InOrder:
    """Summaries of blocks, merged in the order of the rows, however they come together."""

    pieces: list[tuple[int, int, Summary]]  # first row, the one after the last, and their summary

    def plus(self, other: Self) -> Self:
        """Both lots; what is merged at once are those from the very first row on, or too many."""
        first, *rest = sorted(self.pieces + other.pieces, key=itemgetter(0))
        many = sum(summary.size for _, _, summary in (first, *rest)) > _KEPT
        while rest and (many or (first[0] == 0 and first[1] == rest[0][0])):
            _, stop, more = rest.pop(0)
            first = (first[0], stop, first[2].plus(more))
        return type(self)([first, *rest])

    @property
    def whole(self) -> Summary:
        """Of all rows."""
        return reduce(Summary.plus, (summary for _, _, summary in self.pieces))


@dataclass(frozen=True)
class _Summarize:
    """The statistic of `summarize`."""

    numeric_y: bool

    def __call__(self, block: Block) -> _InOrder:
        return _InOrder([(block.start, block.start + block.n, self.of(block))])

    def of(self, block: Block) -> Summary:
        X, y, w = block.X, block.y, block.weights
        labels = None if self.numeric_y else _labels(y, w)
        n_targets, sparse = y.shape[1] if y.ndim == 2 else 0, is_sparse(X)
        weighted = w is not None and not bool((w == 1).all())
        if w is not None and not w.all():
            kept = np.flatnonzero(w)
            if not kept.size:
                return Summary(block.n, 0, None, None, labels, n_targets, True, sparse)
            X, y, w = X[kept], y[kept], w[kept]
        targets = moments(y.reshape(len(y), -1), w) if self.numeric_y else None
        n, inputs = int(X.shape[0]), moments(X, w)
        return Summary(block.n, n, inputs, targets, labels, n_targets, weighted, sparse)


def summarize(rows: Rows, *, numeric_y: bool = True) -> Summary:
    """Read all rows once, and keep what does not depend on their number.

    Rows of weight zero count for nothing, but their labels are known.

    Parameters
    ----------
    rows : Rows
        Rows.
    numeric_y : bool, default=True
        Whether targets are numbers, not labels.

    Returns
    -------
    Summary
        The same however rows are divided into blocks, up to rounding, and wherever these are.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.rows import LocalRows, open_source
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> found = summarize(LocalRows(open_source(X, [1.0, 5.0, 3.0]), 2))
    >>> found.n, found.inputs.mean, found.targets.high, round(found.variance, 6)
    (3, array([2., 3.]), array([5.]), 2.916667)
    """
    found = rows.fold(_Summarize(numeric_y)).whole
    rows.meter.length = max(rows.meter.length, found.n)
    if found.n < 2:
        raise ValueError("there is only 1 row: a fit needs at least 2.")
    if found.weighted or found.inputs is None:
        check_total_weight(found.weight)
    return found


class Gathered(NamedTuple):
    """Rows that were brought into memory."""

    X: Any  # (n, d), dense or CSR
    y: NDArray[Any]  # (n,) or (n, T)
    weights: FloatArray | None  # (n,)


@dataclass(frozen=True)
class _Blocks:
    blocks: list[tuple[int, Gathered]]  # positions of their first rows, and they

    def plus(self, other: Self) -> Self:
        self.blocks.extend(other.blocks)
        return self


def _keep(block: Block) -> _Blocks:
    return _Blocks([(block.start, Gathered(block.X, block.y, block.weights))])


def gather(rows: Rows, fraction: float = 1.0, seed: int = 0) -> Gathered:
    """Bring rows into memory: all, or some drawn at random.

    Parameters
    ----------
    rows : Rows
        Rows.
    fraction : float, default=1.0
        Expected fraction that is drawn: the number that is wanted, divided by that of all.
    seed : int, default=0
        Other rows for another seed.

    Returns
    -------
    Gathered
        X, y and weights, in the order of the rows; the same however they are divided into blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.rows import LocalRows, open_source
    >>> X = np.arange(1000.0)[:, None]
    >>> some = gather(LocalRows(open_source(X, X[:, 0]), 64), fraction=0.1)
    >>> some.X.shape, np.array_equal(some.X[:, 0], some.y)
    ((92, 1), True)
    """
    if fraction < 1:
        rows = rows.mapped(Chosen(fraction, seed))
    # Workers merge the partitions that they have, which need not follow each other.
    blocks = sorted(rows.fold(_keep).blocks, key=lambda pair: pair[0])
    X, y, weights = zip(*(block for _, block in blocks), strict=True)
    all_ones = all(w is None for w in weights)
    known = [np.ones(len(t)) if w is None else w for t, w in zip(y, weights, strict=True)]
    return Gathered(
        sp.vstack(X, format="csr") if is_sparse(X[0]) else np.concatenate(X),
        np.concatenate(y),
        None if all_ones else np.concatenate(known),
    )


def _labels(y: NDArray[Any], weights: FloatArray | None) -> Labels:
    if y.ndim == 2 and y.shape[1] > 1:
        raise ValueError(f"y must have one label for each row, but it has {y.shape[1]} columns.")
    y = plain(y.ravel())
    if y.dtype.kind == "f" and (y != np.floor(y)).any():
        raise ValueError(
            "Unknown label type: y holds numbers that are not whole; a regressor fits those."
        )
    classes, place = _unique(y)
    used = None if weights is None else weights > 0
    counts = np.bincount(place, used, minlength=classes.size).astype(np.intp)
    sums = np.bincount(place, weights, minlength=classes.size).astype(np.float64)
    return Labels(classes, counts, sums)


def _unique(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    try:
        classes, place = np.unique(labels, return_inverse=True)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in labels.tolist()})
        raise ValueError(
            f"y holds labels that cannot be sorted, of the types {', '.join(kinds)}: give labels "
            "of one type."
        ) from None
    if classes.size > _MOST_LABELS:
        raise ValueError(
            f"y has more than {_MOST_LABELS} different labels: these are no classes; a regressor "
            "fits numbers."
        )
    return classes, place


def _is_text(labels: NDArray[Any]) -> bool:
    return labels.dtype.kind in "UST" or (
        labels.dtype.kind == "O" and all(isinstance(label, str) for label in labels)
    )
