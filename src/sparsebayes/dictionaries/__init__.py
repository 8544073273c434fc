"""Dictionaries: how candidate atoms are made from data.

A dictionary is a parameter object; bound to the rows of X it gives atoms, which can be evaluated
at any rows. Dictionaries are added with ``+``. To write one of your own, see the protocols
`Dictionary` and `Atoms`; for atoms that are a fast transform, also `Products`.
"""

from sparsebayes.dictionaries._protocol import Atoms, Dictionary, Products, Tunable
from sparsebayes.dictionaries.bias import Bias
from sparsebayes.dictionaries.kernels import Kernel
from sparsebayes.dictionaries.linear import Linear
from sparsebayes.dictionaries.operators import Operator
from sparsebayes.dictionaries.union import Union, atoms_from_spec
from sparsebayes.dictionaries.wavelets import StationaryWavelet, Wavelet

__all__ = [
    "Atoms",
    "Bias",
    "Dictionary",
    "Kernel",
    "Linear",
    "Operator",
    "Products",
    "StationaryWavelet",
    "Tunable",
    "Union",
    "Wavelet",
    "atoms_from_spec",
]
