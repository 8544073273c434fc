"""Every number of the core that is no mathematics: what rounding leaves, and what memory holds."""

from typing import NamedTuple

import numpy as np

__all__ = ["COLLINEAR", "EPS", "TOLERANCES", "Tolerances"]

EPS = float(np.finfo(float).eps)
"""Rounding of float64."""

COLLINEAR = 1e-8
"""A candidate with S below this fraction of diag(H) is collinear with the model in float64."""


class Tolerances(NamedTuple):
    """Numbers of quadratics; squares and eigenvalues are those of columns of unit norm."""

    # What S resolves, of diag(H), where columns are known
    summed: float = 1e-11  # relative error of columns that are sums of others, and
    rooted: float = 1e-10  # what S resolves of them, as `COLLINEAR` of squares
    # Of columns known to the last bit S is the square of what is left of a column, with an error of
    # about eps, so that three digits of it are known where S is this small.
    told: float = 1e-24

    # When a root is worth its cost
    rooted_work: float = 4e10  # N m^2 that take a few seconds,
    few_rooted: int = 256  # and atoms of any number of rows

    # Memory, in numbers of eight bytes
    spare_cells: int = 2**24  # of columns of G, made room for in advance
    chunk_cells: int = 2**25  # of atoms that are held at a time
    weighted_cells: int = 2**23  # of columns times curvatures of several latent functions
    recent: int = 1024  # atoms of a block of G up to which it is remembered

    # Sums whose terms cancel
    cancellation: float = 1e-3  # a difference below this fraction of its terms is summed afresh
    constant: float = (8 * EPS) ** 2  # of the square of an atom, for each sample: a constant one
    rounding: float = 1e-13  # of a square, and of an eigenvalue: nothing but rounding
    invariant: float = 1e-12  # row sums of a curvature that no shift of all latents changes
    no_curvature: float = 1e-300  # sums of curvature that are none
    smallest: float = 1e-280  # squares between which float64 can compute
    largest: float = 1e280

    # Roots of matrices
    firm: float = 1e-10  # least pivot at which Cholesky's factor is the root
    negative: float = 1e-9  # size of an eigenvalue below zero that is none of a sum of squares
    nothing: float = 1e-14  # eigenvalues that are rounding


TOLERANCES = Tolerances()
