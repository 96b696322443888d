"""Read the weights of a dynamically quantised ONNX graph in float32.

Dynamic quantisation of ONNX Runtime stores a matrix as 8-bit integers with one scale and one zero
point, and rounds what is multiplied by it to 8 bits, too. What is read here, `scale * (integer -
zero)`, is the very matrix of its products, and whoever computes with it rounds nothing any more.

Only what is needed of the format, protocol buffers, is read: the package `onnx` is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...guard.errors import ModelFolderError

# Field numbers of onnx.proto: of a model; of a graph; of a node; of a tensor.
_GRAPH = 7
_NODE, _INITIALIZER = 1, 5
_INPUT, _NODE_NAME, _OPERATOR = 1, 3, 4
_DIMS, _TYPE, _NAME, _RAW = 1, 2, 8, 9
_FLOATS, _INTEGERS = 4, 5
# Its numbers of the types of tensors that are read here.
_TYPES: Mapping[int, Any] = MappingProxyType({1: np.float32, 2: np.uint8, 3: np.int8})
_VARINT, _BYTES = 0, 2
_QUANTISED, _SCALE, _ZERO = "_quantized", "_scale", "_zero_point"
_PRODUCT = "MatMulInteger"
# Number and content of a field: whole numbers as such, everything else as bytes.
_Field = tuple[int, int | bytes]


def quantised_weights(path: Path) -> dict[str, NDArray[np.float32]]:
    """The weights in float32, by the names of transformers.

    The matrix of a product has the name of the module that multiplies by it, and the shape (inputs,
    outputs).

    Raises:
        ModelFolderError: the file is missing, damaged, or not such a graph.
    """
    try:
        graph = dict(_fields(path.read_bytes()))[_GRAPH]
        return _weights(list(_fields(_bytes((_GRAPH, graph)))))
    except (OSError, KeyError, IndexError, ValueError) as error:
        raise ModelFolderError(
            f"cannot be read as a quantised ONNX graph ({type(error).__name__})",
            where=str(path),
            hint="check that the file is whole",
        ) from error


def _weights(graph: list[_Field]) -> dict[str, NDArray[np.float32]]:
    stored = {_text(_bytes(one), _NAME): _bytes(one) for one in graph if one[0] == _INITIALIZER}
    names = {name: name.removesuffix(_QUANTISED) for name in stored if name.endswith(_QUANTISED)}
    if not names:
        raise ValueError("no matrix in 8 bits")
    for node in (_bytes(one) for one in graph if one[0] == _NODE):
        if _text(node, _OPERATOR) == _PRODUCT:
            # "/bert/pooler/dense/MatMul_quant" multiplies by the weight of "bert.pooler.dense".
            module = _text(node, _NODE_NAME).rpartition("/")[0].strip("/").replace("/", ".")
            inputs = (_bytes(one).decode() for one in _fields(node) if one[0] == _INPUT)
            names.update((one, f"{module}.weight") for one in inputs if one in names)
    found = {own: _dequantised(name, stored) for name, own in names.items()}
    plain = (name for name in stored if name.endswith((".weight", ".bias")))
    return found | {name: _tensor(stored[name]).astype(np.float32) for name in plain}


def _dequantised(name: str, stored: Mapping[str, bytes]) -> NDArray[np.float32]:
    stem = name.removesuffix(_QUANTISED)
    values, scale, zero = (_tensor(stored[stem + end]) for end in (_QUANTISED, _SCALE, _ZERO))
    whole = values.astype(np.int32) - zero.astype(np.int32)
    return whole.astype(np.float32) * scale.astype(np.float32)


def _text(data: bytes, number: int) -> str:
    """A field of text; empty where it is not there."""
    return next((_bytes(one).decode() for one in _fields(data) if one[0] == number), "")


def _tensor(data: bytes) -> NDArray[Any]:
    fields = list(_fields(data))
    shape = [one for field in fields if field[0] == _DIMS for one in _numbers(field)]
    found = dict(fields)
    kind = found[_TYPE]
    assert isinstance(kind, int)
    if _RAW in found:
        values = np.frombuffer(_bytes((_RAW, found[_RAW])), _TYPES[kind])
    elif _FLOATS in found:
        values = np.frombuffer(_bytes((_FLOATS, found[_FLOATS])), "<f4")
    else:
        integers = _numbers((_INTEGERS, found[_INTEGERS]))
        values = np.array(integers, np.int64).astype(_TYPES[kind])
    return values.reshape(shape)


# -- protocol buffers -----------------------------------------------------------------------------


def _fields(data: bytes) -> Iterator[_Field]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire != _BYTES:
            # Single numbers of four or eight bytes: no field of a graph that is read here is one.
            raise ValueError(f"wire type {wire}")
        size, at = _varint(data, at)
        if at + size > len(data):
            raise ValueError("the file ends within a field")
        yield number, data[at : at + size]
        at += size


def _bytes(field: _Field) -> bytes:
    value = field[1]
    if isinstance(value, int):
        raise ValueError("a number where text or a message is expected")
    return value


def _numbers(field: _Field) -> list[int]:
    """Packed numbers, or the one that stands alone."""
    value = field[1]
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        found.append(number - 2**64 if number >= 2**63 else number)
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
