"""Problems whose truth is known, made on the spot: nothing is downloaded or stored."""

from sparsebayes.datasets._data import Dataset, Labeled, SparseLinear
from sparsebayes.datasets.problems import (
    friedman1,
    friedman2,
    friedman3,
    mixtures,
    sinc,
    sparse_linear,
)
from sparsebayes.datasets.signals import blocks, blocks_sinc, bumps, doppler, heavisine

__all__ = [
    "Dataset",
    "Labeled",
    "SparseLinear",
    "blocks",
    "blocks_sinc",
    "bumps",
    "doppler",
    "friedman1",
    "friedman2",
    "friedman3",
    "heavisine",
    "mixtures",
    "sinc",
    "sparse_linear",
]
