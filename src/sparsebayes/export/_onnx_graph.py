"""A graph of ONNX operators, built from the inputs to the outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes.export._errors import ExportError

__all__ = ["OPSET", "Graph", "require_onnx"]

OPSET = 17
_IR_VERSION = 8  # the one that came with this opset: older runtimes refuse newer ones
_FLOATS: dict[str, np.dtype[Any]] = {
    "double": np.dtype(np.float64),
    "single": np.dtype(np.float32),
}


def require_onnx() -> Any:
    """Import the package that writes the files; where there is none, say how to get it."""
    try:
        import onnx
    except ImportError:
        raise ImportError(
            'export to ONNX needs the package onnx: pip install "sparsebayes[onnx]"'
        ) from None
    return onnx


class Graph:
    """Operators in the order of their evaluation, and the constants that they need.

    Values are known by their names. Where an operator takes a value it also takes a number or an
    array, which becomes a constant: floats in the precision of the graph, integers as int64.

    Parameters
    ----------
    precision : {"double", "single"}
        Of all floats.
    outer : Graph or None, default=None
        The graph that this one is the body of; it has the constants and gives out the names.
    """

    def __init__(self, precision: str, outer: Graph | None = None) -> None:
        self.onnx = require_onnx()
        self.precision = precision
        self.dtype = _FLOATS[precision]
        self.nodes: list[Any] = []
        self._root: Graph = outer._root if outer is not None else self
        self._names = 0
        self._constants: dict[tuple[Any, ...], Any] = {}

    @property
    def kind(self) -> int:
        """ONNX's number for the type of its floats."""
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(self.dtype))

    @property
    def tiny(self) -> float:
        """Smallest of its floats above zero that has all digits."""
        return float(np.finfo(self.dtype).tiny)

    @property
    def bytes_of_constants(self) -> int:
        """Size of all constants."""
        return sum(tensor.ByteSize() for tensor in self._root._constants.values())

    def __call__(self, operator: str, *inputs: Any, name: str | None = None, **options: Any) -> str:
        """Add an operator with one output.

        Parameters
        ----------
        operator : str
            Its name in ONNX.
        *inputs : str, float or ndarray
            Names of values, or constants.
        name : str or None, default=None
            Of the output; None for one that is new.
        **options : object
            Attributes of the operator.

        Returns
        -------
        str
            Name of the output.
        """
        return self.several(operator, *inputs, names=[name or self.fresh()], **options)[0]

    def several(self, operator: str, *inputs: Any, names: list[str], **options: Any) -> list[str]:
        """Add an operator with the outputs of these names."""
        values = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        self.nodes.append(self.onnx.helper.make_node(operator, values, names, **options))
        return names

    def fresh(self) -> str:
        """A name that nothing has yet."""
        self._root._names += 1
        return f"v{self._root._names}"

    def constant(self, value: Any, *, exact: bool = False) -> str:
        """Name of a constant; equal ones are stored once.

        Parameters
        ----------
        value : float, int, bool, or an array of these or of texts
            The value.
        exact : bool, default=False
            Whether floats stay in double precision, whatever the graph's is.

        Returns
        -------
        str
            Its name.
        """
        array: NDArray[Any] = np.asarray(value)
        if array.dtype.kind == "f" and not exact:
            array = self._in_precision(array)
        elif array.dtype.kind in "iu":
            array = array.astype(np.int64)
        content = tuple(array.ravel()) if array.dtype.kind in "OU" else array.tobytes()
        key = (array.dtype.str, array.shape, content)
        constants = self._root._constants
        if key not in constants:
            constants[key] = self._tensor(array, f"c{len(constants)}")
        return str(constants[key].name)

    def _tensor(self, array: NDArray[Any], name: str) -> Any:
        if array.dtype.kind in "OU":
            return self.onnx.helper.make_tensor(
                name,
                self.onnx.TensorProto.STRING,
                array.shape,
                [str(text).encode("utf-8") for text in array.ravel()],
            )
        return self.onnx.numpy_helper.from_array(np.asarray(array, order="C"), name)

    def _in_precision(self, array: NDArray[Any]) -> NDArray[Any]:
        with np.errstate(over="ignore", under="ignore"):
            narrow: NDArray[Any] = array.astype(self.dtype)
        largest = float(np.abs(array).max(initial=0.0))
        vanishes = largest > 0 and float(np.abs(narrow).max()) < self.tiny
        if vanishes or (np.isfinite(array) & ~np.isfinite(narrow)).any():
            raise ExportError(
                "the model holds numbers out of the range of single precision: export it with "
                "precision='double', or fit it to data in other units"
            )
        return narrow

    def input(self, name: str, shape: list[Any], kind: int | None = None) -> Any:
        """Description of an input or output: names stand for sizes that are free."""
        return self.onnx.helper.make_tensor_value_info(name, kind or self.kind, shape)

    def body(self, name: str, inputs: list[Any], outputs: list[Any]) -> Any:
        """The operators so far as what a loop or a branch evaluates."""
        return self.onnx.helper.make_graph(self.nodes, name, inputs, outputs)

    def model(
        self,
        name: str,
        inputs: list[Any],
        outputs: list[Any],
        about: str,
        properties: dict[str, str],
        version: str,
    ) -> Any:
        """The whole as a model that was checked.

        Parameters
        ----------
        name : str
            Of the graph.
        inputs, outputs : list
            What `input` made.
        about : str
            What it is, in words.
        properties : dict of str to str
            Metadata.
        version : str
            Of the program that made it.

        Returns
        -------
        onnx.ModelProto
            The model.
        """
        graph = self.onnx.helper.make_graph(
            self.nodes, name, inputs, outputs, list(self._constants.values()), doc_string=about
        )
        model = self.onnx.helper.make_model(
            graph,
            opset_imports=[self.onnx.helper.make_opsetid("", OPSET)],
            ir_version=_IR_VERSION,
            producer_name="sparsebayes",
            producer_version=version,
        )
        self.onnx.helper.set_model_props(model, properties)
        self.onnx.checker.check_model(model, full_check=True)
        return model
