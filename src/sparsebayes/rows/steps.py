"""Steps: what is done to the targets of a block when it is read."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._labels import plain, shown
from sparsebayes.likelihoods import Likelihood
from sparsebayes.rows.blocks import Block, ChunkError

FloatArray = NDArray[np.float64]

__all__ = ["Checked", "Coded", "Standardized"]


@dataclass(frozen=True)
class Standardized:
    """A step that gives targets a mean of zero and a unit of their own.

    Parameters
    ----------
    shift : ndarray of shape (T,)
        What is subtracted.
    scale : float
        The unit.
    constant : ndarray of bool of shape (T,)
        Targets of which nothing but rounding would be left.

    Examples
    --------
    >>> import numpy as np
    >>> step = Standardized(np.array([10.0]), 4.0, np.array([False]))
    >>> step(Block(np.zeros((2, 1)), np.array([7.0, 13.0]), None, 0, "chunk 0")).y.ravel()
    array([-0.75,  0.75])
    """

    shift: FloatArray
    scale: float
    constant: NDArray[np.bool_]

    def __call__(self, block: Block) -> Block:
        """Change the targets of a block.

        Parameters
        ----------
        block : Block
            Rows with targets (n,) or (n, T).

        Returns
        -------
        Block
            The same rows with targets (n, T).
        """
        t = (block.y.reshape(block.n, -1) - self.shift) / self.scale
        t[:, self.constant] = 0.0
        return block._replace(y=t)


@dataclass(frozen=True)
class Coded:
    """A step that turns labels into numbers of classes, and weighs rows by their class.

    Parameters
    ----------
    classes : ndarray of shape (K,)
        Labels, in order.
    weights : ndarray of shape (K,) or None
        Weight of each class; None where all are one.

    Examples
    --------
    >>> import numpy as np
    >>> step = Coded(np.array(["no", "yes"]), np.array([1.0, 3.0]))
    >>> block = step(Block(np.zeros((2, 1)), np.array(["yes", "no"]), None, 0, "chunk 0"))
    >>> block.y, block.weights
    (array([1., 0.]), array([3., 1.]))
    """

    classes: NDArray[Any]
    weights: FloatArray | None

    def __call__(self, block: Block) -> Block:
        """Change the targets and weights of a block.

        Parameters
        ----------
        block : Block
            Rows with labels.

        Returns
        -------
        Block
            The same rows with numbers.
        """
        labels = plain(block.y.ravel())
        codes = np.minimum(np.searchsorted(self.classes, labels), self.classes.size - 1)
        strange = np.flatnonzero(self.classes[codes] != labels)
        if strange.size:
            raise ChunkError(
                f"{block.name}: it has the label {shown(labels[strange[:1]])}, which no chunk had "
                "when the data were read first."
            )
        weights = block.weights
        if self.weights is not None:
            own = self.weights[codes]
            weights = own if weights is None else weights * own
        return block._replace(y=codes.astype(np.float64), weights=weights)


@dataclass(frozen=True)
class Checked:
    """A step that lets a likelihood check the targets of a block.

    Parameters
    ----------
    likelihood : Likelihood
        The likelihood.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.likelihoods import Poisson
    >>> block = Block(np.zeros((2, 1)), np.array([1.0, 2.5]), None, 0, "chunk 7")
    >>> try:
    ...     Checked(Poisson())(block)
    ... except ValueError as error:
    ...     print(error)
    chunk 7: targets must be counts, which are integers; got 2.5 (1 such targets).
    """

    likelihood: Likelihood

    def __call__(self, block: Block) -> Block:
        """Check the targets of a block.

        Parameters
        ----------
        block : Block
            Rows with targets.

        Returns
        -------
        Block
            The same rows with targets as the likelihood takes them, (n,).
        """
        if block.y.ndim == 2 and block.y.shape[1] > 1:
            raise ChunkError(
                f"{block.name}: y has {block.y.shape[1]} columns, but only the Gaussian likelihood "
                "takes several targets."
            )
        try:
            t = self.likelihood.check(block.y.ravel())
        except ValueError as error:
            raise ChunkError(f"{block.name}: {error}") from error
        return block._replace(y=t)
