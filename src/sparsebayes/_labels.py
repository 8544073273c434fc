"""Class labels: counted, weighted, and written down as JSON."""

import contextlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = [
    "class_weights",
    "first_missing",
    "labels_from_json",
    "labels_to_json",
    "plain",
    "present",
    "separated",
    "shown",
]

_NUMBERS = ("bool", "float16", "float32", "float64") + tuple(
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
)


def present(y: Any) -> Any:
    """Labels without gaps: a column of pandas that can mark gaps becomes an array of its type.

    scikit-learn would make floats of nullable integers and booleans, takes dates that are missing
    for a class, and cannot compare None or ``pandas.NA``.

    Parameters
    ----------
    y : object
        Labels as they were given.

    Returns
    -------
    object
        The labels; a ValueError where some are missing. What is no column is returned as it is,
        and numbers that are NaN are left to scikit-learn.

    Examples
    --------
    >>> import pandas as pd
    >>> present(pd.Series([True, False], dtype="boolean"))
    array([ True, False])
    """
    if not (hasattr(y, "isna") and hasattr(y, "to_numpy") and getattr(y, "ndim", 0) == 1):
        _refuse_gaps(y)
        return y
    missing = int(np.asarray(y.isna()).sum())
    if missing:
        raise ValueError(
            f"Input y contains NaN: {missing} of {len(y)} labels are missing; leave their rows out."
        )
    kind = getattr(y.dtype, "numpy_dtype", None)  # of nullable columns only
    return y.to_numpy(dtype=kind) if kind is not None and kind.kind in "biuf" else y


def _refuse_gaps(y: Any) -> None:
    try:
        labels = np.asarray(y)
    except ValueError:  # lists of several lengths, of which scikit-learn says so
        return
    if labels.ndim == 0 or labels.dtype.kind not in "OmM":
        return
    if (row := first_missing(labels)) is not None:
        raise ValueError(
            f"Input y contains NaN or None: row {row} has no label but {labels[row]}; leave such "
            "rows out."
        )


def first_missing(labels: NDArray[Any]) -> int | None:
    """Row of the first label that is None, NA or no finite number.

    Parameters
    ----------
    labels : ndarray of shape (n,) or (n, k)
        Labels.

    Returns
    -------
    int or None
        None where all are present.

    Examples
    --------
    >>> import numpy as np
    >>> first_missing(np.array(["a", None])), first_missing(np.array([1.0, 2.0]))
    (1, None)
    """
    flat = labels.reshape(len(labels), -1)
    if labels.dtype.kind == "O":
        gaps = (flat == None) | np.vectorize(_unlike_itself, otypes=[bool])(flat)  # noqa: E711
    elif labels.dtype.kind in "fcmM":
        gaps = ~np.isfinite(flat)
    else:
        return None
    rows = np.flatnonzero(gaps.any(axis=1))
    return int(rows[0]) if rows.size else None


def _unlike_itself(label: Any) -> bool:
    try:
        return bool(label != label)
    except TypeError:  # pandas' NA is neither equal nor unequal to anything
        return True


def plain(y: Any) -> NDArray[Any]:
    """Labels as an array: objects that are all numbers, or all booleans, become these.

    Parameters
    ----------
    y : array-like of shape (N,)
        Labels.

    Returns
    -------
    ndarray of shape (N,)
        The labels.

    Examples
    --------
    >>> import numpy as np
    >>> plain(np.array([2, 1, 2], dtype=object))
    array([2, 1, 2])
    >>> plain(np.array([2, 1.0, 2], dtype=object))
    array([2., 1., 2.])
    """
    labels = np.asarray(y)
    if labels.dtype != object:
        return labels
    kinds = {type(label) for label in labels}
    numbers = all(issubclass(kind, int | float | np.integer | np.floating) for kind in kinds)
    if len(kinds) == 1 and (numbers or kinds == {np.bool_}):
        with contextlib.suppress(OverflowError):
            return labels.astype(kinds.pop())
    elif kinds and numbers and bool not in kinds:
        with contextlib.suppress(OverflowError):
            found = labels.astype(np.result_type(*kinds))
            if (found == labels).all():  # as large integers among floats are not
                return found
    return labels


def separated(y: NDArray[Any]) -> tuple[NDArray[Any], IndexArray]:
    """Classes in order, and the position among them of each label.

    Parameters
    ----------
    y : ndarray of shape (N,)
        Labels.

    Returns
    -------
    classes : ndarray of shape (K,)
        Labels that occur, K at least two.
    codes : ndarray of shape (N,)
        ``classes[codes]`` is y.

    Examples
    --------
    >>> import numpy as np
    >>> separated(np.array(["no", "yes", "no"]))
    (array(['no', 'yes'], dtype='<U3'), array([0, 1, 0]))
    """
    try:
        classes, codes = np.unique(y, return_inverse=True)
        if y.dtype == object:
            known = len(set(classes))  # no lists: these would be several labels of a row
            # Of two sets neither need be the smaller one, which np.unique does not mind.
            if known < classes.size or not (classes[:-1] < classes[1:]).all():
                raise TypeError
    except TypeError:
        kinds = sorted({type(label).__name__ for label in y})
        raise ValueError(
            f"y holds labels that cannot be sorted, of the types {', '.join(kinds)}: give labels "
            "of one type, such as text or integers."
        ) from None
    if classes.size < 2:
        raise ValueError(
            f"y has only one class, {shown(classes)}: a classifier needs samples of at least two."
        )
    return classes, codes


def class_weights(
    class_weight: Any, classes: NDArray[Any], codes: IndexArray, weights: FloatArray | None
) -> FloatArray | None:
    """Weight of each class; None where they are all one.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        As given. "balanced" is N / (K * samples of the class), sample weights counted.
    classes : ndarray of shape (K,)
        The classes.
    codes : ndarray of shape (N,)
        Class of each sample.
    weights : ndarray of shape (N,) or None
        Weight of each sample.

    Returns
    -------
    ndarray of shape (K,) or None
        Weights, not negative.

    Examples
    --------
    >>> import numpy as np
    >>> classes, codes = separated(np.array(["no", "yes", "no", "no"]))
    >>> class_weights("balanced", classes, codes, None).round(3)
    array([0.667, 2.   ])
    >>> class_weights({"yes": 3}, classes, codes, None)
    array([1., 3.])
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        counts = np.bincount(codes, weights, minlength=classes.size)
        balanced = counts.sum() / (classes.size * counts)
        # Of 24 bits: sums of such weights are exact, so a weight of two stays a row given twice.
        return np.asarray(balanced.astype(np.float32), dtype=np.float64)
    known = dict(zip(classes.tolist(), range(classes.size), strict=True))
    strange = [label for label in class_weight if label not in known]
    if strange:
        raise ValueError(
            f"class_weight has a weight for {strange[0]!r}, which is no class of y: they are "
            f"{shown(classes)}."
        )
    found = np.ones(classes.size)
    for label, weight in class_weight.items():
        try:
            found[known[label]] = float(weight)
        except (TypeError, ValueError):
            found[known[label]] = np.nan
        if not 0 <= found[known[label]] < np.inf:
            raise ValueError(
                f"class_weight must hold numbers >= 0, got {weight!r} for class {label!r}."
            )
    return found


def shown(classes: NDArray[Any], most: int = 8) -> str:
    """The first few classes, for a message."""
    listed = ", ".join(repr(label) for label in classes[:most].tolist())
    return listed + (", ..." if classes.size > most else "")


def labels_to_json(classes: NDArray[Any]) -> dict[str, Any]:
    """Describe classes by what JSON can hold.

    Parameters
    ----------
    classes : ndarray of shape (K,)
        Booleans, numbers or strings, in an array of their type or of objects.

    Returns
    -------
    dict
        The type and the labels; a ValueError for labels of other types.

    Examples
    --------
    >>> import numpy as np
    >>> labels_to_json(np.array(["no", "yes"]))
    {'type': 'str', 'labels': ['no', 'yes']}
    """
    name = "str" if classes.dtype.kind == "U" else classes.dtype.name
    labels = classes.tolist()
    if name not in ("str", "object", *_NUMBERS) or not all(
        type(label) in (bool, int, float, str) for label in labels
    ):
        raise ValueError(
            f"labels of type {type(labels[0]).__name__} cannot be stored without pickle: fit with "
            "strings or numbers, for example those of sklearn.preprocessing.LabelEncoder"
        )
    return {"type": name, "labels": labels}


def labels_from_json(stored: Any) -> NDArray[Any]:
    """Rebuild what `labels_to_json` described; a ValueError for anything unexpected.

    Parameters
    ----------
    stored : object
        From ``json.loads``.

    Returns
    -------
    ndarray of shape (K,)
        The classes: at least two, all different, in order.

    Examples
    --------
    >>> labels_from_json({"type": "int64", "labels": [1, 2, 3]})
    array([1, 2, 3])
    """
    name, labels = stored["type"], stored["labels"]
    if not isinstance(labels, list) or not isinstance(name, str):
        raise ValueError("stored classes are no list")
    kinds: dict[str, tuple[type, ...]] = {"object": (bool, int, float, str), "str": (str,)}
    kinds |= {number: (float if "float" in number else int,) for number in _NUMBERS}
    kinds["bool"] = (bool,)
    if name not in kinds or not all(type(label) in kinds[name] for label in labels):
        raise ValueError("stored classes are of an unknown type")
    classes = np.array(labels, dtype=name)
    if len(labels) < 2 or not (classes[1:] > classes[:-1]).all():
        raise ValueError("stored classes are not in order")
    return classes
