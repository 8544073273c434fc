"""The atoms that a model kept, in words and numbers."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes.dictionaries._kernel_parameters import is_gp_kernel
from sparsebayes.dictionaries._protocol import is_sparse
from sparsebayes.dictionaries.bias import BiasAtoms
from sparsebayes.dictionaries.kernels import KernelAtoms
from sparsebayes.dictionaries.linear import LinearAtoms, PrecomputedAtoms
from sparsebayes.dictionaries.operators import MatrixAtoms, OperatorAtoms
from sparsebayes.dictionaries.union import UnionAtoms
from sparsebayes.dictionaries.wavelets import WaveletAtoms
from sparsebayes.latent_posterior import LatentPosterior
from sparsebayes.reporting._html import Html, cut, listed, name, number, text
from sparsebayes.reporting._tables import Column, table

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["Kept", "atom_table", "kernels_of", "kinds_of", "parts_of"]

MOST_ROWS = 500
_SHORT = 30  # rows that a page can show at once
_INPUTS = 6  # of the center of a kernel that are shown
_TARGETS = 4  # whose weights are shown
_NAMES = {
    "rbf": "Gaussian (rbf) kernel",
    "laplacian": "Laplacian kernel",
    "poly": "polynomial kernel",
    "polynomial": "polynomial kernel",
    "sigmoid": "sigmoid kernel",
    "linear": "linear kernel",
    "cosine": "cosine kernel",
    "lspline": "linear spline kernel",
    "tps": "thin-plate spline kernel",
}


def parts_of(atoms: Any) -> Iterator[tuple[Any, IndexArray]]:
    """Take unions apart.

    Parameters
    ----------
    atoms : Atoms
        Of a posterior.

    Yields
    ------
    part : Atoms
        Atoms of one kind.
    columns : ndarray
        Their positions in `atoms`.
    """
    if not isinstance(atoms, UnionAtoms):
        yield atoms, np.arange(atoms.size)
        return
    for part, columns in zip(atoms.parts, atoms.columns, strict=True):
        for inner, places in parts_of(part):
            yield inner, columns[places]


def kernels_of(atoms: Any) -> list[KernelAtoms]:
    """Kernels among the atoms.

    Parameters
    ----------
    atoms : Atoms
        Of a posterior.

    Returns
    -------
    list of KernelAtoms
        In their order.
    """
    return [part for part, _ in parts_of(atoms) if isinstance(part, KernelAtoms)]


def kind_of(part: Any) -> tuple[str, str]:
    """Name what atoms are: one of them, and several.

    Parameters
    ----------
    part : Atoms
        Atoms of one kind.

    Returns
    -------
    one, several : str
        Such as "column of X" and "columns of X".
    """
    if isinstance(part, LinearAtoms):
        return "column of X", "columns of X"
    if isinstance(part, BiasAtoms):
        return "constant", "constants"
    if isinstance(part, PrecomputedAtoms):
        return "column of the kernel matrix", "columns of the kernel matrix"
    if isinstance(part, WaveletAtoms):
        return f"wavelet {part.transform.name}", f"wavelets {part.transform.name}"
    if isinstance(part, MatrixAtoms | OperatorAtoms):
        return "column of the operator", "columns of the operator"
    if isinstance(part, KernelAtoms):
        kind = _kernel_name(part)
        return kind, kind.replace("kernel", "kernels") if "kernel" in kind else f"{kind}s"
    kind = type(part).__name__
    return f"atom of {kind}", f"atoms of {kind}"


def _kernel_name(part: KernelAtoms) -> str:
    if isinstance(part.kernel, str):
        kind = _NAMES.get(part.kernel, f"{part.kernel} kernel")
        return f"{kind} of degree {part.degree}" if part.kernel.startswith("poly") else kind
    if is_gp_kernel(part.kernel):
        return f"kernel {cut(part.kernel, 60)}"
    return f"kernel {cut(getattr(part.kernel, '__name__', type(part.kernel).__name__), 60)}"


def kinds_of(atoms: Any) -> Html:
    """Count the atoms of each kind, in words.

    Parameters
    ----------
    atoms : Atoms
        Of a posterior.

    Returns
    -------
    Html
        Such as "2 columns of X and 5 Gaussian (rbf) kernels".
    """
    counts: Counter[tuple[str, str]] = Counter()
    for part, columns in parts_of(atoms):
        if len(columns):
            counts[kind_of(part)] += len(columns)
    return listed([f"{n} {one if n == 1 else several}" for (one, several), n in counts.items()])


@dataclass(frozen=True)
class Kept:
    """What is known of each active atom: of each latent function, where there are several.

    Parameters
    ----------
    model : estimator
        Fitted.
    """

    model: Any

    @property
    def latent(self) -> bool:
        """Whether the posterior is one of latent functions."""
        return isinstance(self.model.posterior_, LatentPosterior)

    @property
    def atom(self) -> IndexArray:
        """Which of the active atoms each entry is, shape (m,)."""
        posterior = self.model.posterior_
        return posterior.atom if self.latent else np.arange(posterior.atoms.size)

    @property
    def weights(self) -> FloatArray:
        """Posterior means, shape (m, T)."""
        weights = np.asarray(self.model.posterior_.weights)
        return weights if weights.ndim == 2 else weights[:, None]

    @property
    def std(self) -> FloatArray:
        """Posterior standard deviations, shape (m,)."""
        posterior = self.model.posterior_
        scale = 1.0 if self.latent else posterior.scale
        return np.asarray(np.sqrt(self._variance) / posterior.norm * scale)

    @property
    def dof(self) -> FloatArray:
        """How far the data determine each weight: 0 not at all, 1 alone.  1 - Sigma_jj / v_j."""
        v = self.model.posterior_.prior_variance
        known = v > 0
        return np.where(known, np.clip(1.0 - self._variance / np.where(known, v, 1.0), 0, 1), 0.0)

    @property
    def certainty(self) -> FloatArray:
        """Largest |weight| of an entry in standard deviations, shape (m,)."""
        std = self.std
        largest = np.abs(self.weights).max(axis=1, initial=0.0)
        return np.where(std > 0, largest / np.where(std > 0, std, 1.0), np.inf)

    @property
    def _variance(self) -> FloatArray:
        """Variances of the weights of atoms of unit norm, shape (m,)."""
        root = self.model.posterior_.root
        return np.asarray(np.square(root) if root.ndim == 1 else np.einsum("ij,ij->i", root, root))


def atom_table(
    model: Any, feature_names: Sequence[str], target_names: Sequence[str]
) -> tuple[Html, int]:
    """List the active atoms, the surest first.

    Parameters
    ----------
    model : estimator
        Fitted.
    feature_names : sequence of str
        Names of the inputs.
    target_names : sequence of str
        Names of the targets.

    Returns
    -------
    table : Html
        The table; nothing where the model has no atoms.
    more : int
        How many atoms are not in it.
    """
    kept, posterior = Kept(model), model.posterior_
    weights, certainty = kept.weights, kept.certainty
    order = np.argsort(-certainty, kind="stable")
    shown = order[:MOST_ROWS]
    if not len(order):
        return Html(""), 0
    classes = _classes(model)
    several = weights.shape[1] > 1
    titles, inputs = _described(posterior.atoms, kept.atom[shown], feature_names)
    columns = [Column("atom", numeric=False)]
    if classes is not None:
        columns.append(Column("class", numeric=False))
    columns += [
        Column(Html(f"weight of {name(target, 24)}") if several else "weight")
        for target in list(target_names)[: min(weights.shape[1], _TARGETS)]
    ]
    columns += [
        Column("standard error"),
        Column("|weight| / error"),
        Column("prior variance"),
        Column("determined by data"),
    ]
    columns += [Column(name(feature_names[k], 24)) for k in range(inputs)]
    centers = _centers(posterior.atoms, inputs)
    std, dof, variance = kept.std, kept.dof, posterior.weight_variance
    rows = []
    for title, entry in zip(titles, shown.tolist(), strict=True):
        row: list[Any] = [title]
        if classes is not None:
            row.append(name(classes[posterior.latent[entry]], 40))
        row += [float(w) for w in weights[entry, :_TARGETS]]
        row += [float(std[entry]), float(certainty[entry]), float(variance[entry])]
        row.append(f"{dof[entry]:.3f}")
        row += _cells(centers, int(kept.atom[entry]), inputs)
        rows.append(row)
    sure = 1 + (classes is not None) + min(weights.shape[1], _TARGETS) + 1
    caption = "Atoms kept, the surest first"
    tall = len(rows) > _SHORT
    found = table("atom-list", caption, columns, rows, sorted_by=sure, tall=tall)
    return found, len(order) - len(shown)


def _classes(model: Any) -> Any:
    """Classes, where each has a latent function of its own."""
    classes = getattr(model, "classes_", None)
    return None if classes is None or len(classes) == 2 else classes.tolist()


def _described(
    atoms: Any, wanted: IndexArray, feature_names: Sequence[str]
) -> tuple[list[Html], int]:
    """Name of each wanted atom, and how many inputs of centers there are to show."""
    titles: dict[int, Html] = {}
    needed = set(wanted.tolist())
    inputs, several = 0, len({type(part) for part, _ in parts_of(atoms)}) > 1
    for part, columns in parts_of(atoms):
        one, _ = kind_of(part)
        for place, column in enumerate(columns.tolist()):
            if column not in needed:
                continue
            index = int(part.index[place])
            if isinstance(part, LinearAtoms):
                titles[column] = name(feature_names[index])
            elif isinstance(part, BiasAtoms):
                titles[column] = text("constant")
            elif isinstance(part, KernelAtoms) and not several:
                titles[column] = text(f"center {index}")
            elif isinstance(part, KernelAtoms):
                titles[column] = text(f"{one}, center {index}")
            else:
                titles[column] = text(f"{one} {index}")
        if isinstance(part, KernelAtoms):
            inputs = min(part.n_features_in, _INPUTS)
    return [titles[column] for column in wanted.tolist()], inputs


def _centers(atoms: Any, inputs: int) -> dict[int, FloatArray]:
    """First inputs of the center of each kernel, by its position."""
    found: dict[int, FloatArray] = {}
    for part, columns in parts_of(atoms):
        if isinstance(part, KernelAtoms):
            first = part.centers[:, :inputs]
            dense = first.toarray() if is_sparse(first) else np.asarray(first)
            found |= dict(zip(columns.tolist(), dense, strict=True))
    return found


def _cells(centers: dict[int, FloatArray], atom: int, inputs: int) -> list[str]:
    if atom not in centers:
        return [""] * inputs
    return [number(float(value)) for value in centers[atom]]
