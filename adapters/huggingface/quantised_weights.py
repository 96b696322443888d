"""Read the weights of a dynamically quantised ONNX graph in float32.

Dynamic quantisation of ONNX Runtime stores a matrix as 8-bit integers with one scale and one zero
point, and rounds what is multiplied by it to 8 bits, too. What is read here, `scale * (integer -
zero)`, is the very matrix of its products, and whoever computes with it rounds nothing any more.

Only what is needed of the format, protocol buffers, is read: the package `onnx` is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
_PRODUCT = b"MatMulInteger"
# Contents by the number of a field: whole numbers as such, everything else as bytes.
_Message = dict[int, list[Any]]


def quantised_weights(path: Path) -> dict[str, NDArray[np.float32]]:
    """The weights in float32, by the names of transformers.

    The matrix of a product has the name of the module that multiplies by it, and the shape (inputs,
    outputs).

    Raises:
        ModelFolderError: the file is missing, damaged, or not such a graph.
    """
    try:
        return _weights(_message(_message(path.read_bytes())[_GRAPH][-1]))
    except (OSError, KeyError, IndexError, ValueError, TypeError) as error:
        what = f"cannot be read as a quantised ONNX graph ({type(error).__name__})"
        hint = "check that the file is whole"
        raise ModelFolderError(what, where=str(path), hint=hint) from error


def _weights(graph: _Message) -> dict[str, NDArray[np.float32]]:
    stored = {one[_NAME][0].decode(): one for one in map(_message, graph[_INITIALIZER])}
    names = {name: name.removesuffix(_QUANTISED) for name in stored if name.endswith(_QUANTISED)}
    if not names:
        raise ValueError("no matrix in 8 bits")
    for node in map(_message, graph[_NODE]):
        if node[_OPERATOR] == [_PRODUCT]:
            # "/bert/pooler/dense/MatMul_quant" multiplies by the weight of "bert.pooler.dense".
            module = node[_NODE_NAME][0].decode().rpartition("/")[0].strip("/").replace("/", ".")
            inputs = (one.decode() for one in node[_INPUT])
            names.update((one, f"{module}.weight") for one in inputs if one in names)
    found = {own: _dequantised(name, stored) for name, own in names.items()}
    plain = (name for name in stored if name.endswith((".weight", ".bias")))
    return found | {name: _tensor(stored[name]).astype(np.float32) for name in plain}


def _dequantised(name: str, stored: Mapping[str, _Message]) -> NDArray[np.float32]:
    stem = name.removesuffix(_QUANTISED)
    values, scale, zero = (_tensor(stored[stem + end]) for end in (_QUANTISED, _SCALE, _ZERO))
    whole = values.astype(np.int32) - zero.astype(np.int32)
    return whole.astype(np.float32) * scale.astype(np.float32)


def _tensor(fields: _Message) -> NDArray[Any]:
    kind = _TYPES[fields[_TYPE][-1]]
    if _RAW in fields:
        values = np.frombuffer(fields[_RAW][-1], kind)
    elif _FLOATS in fields:
        values = np.frombuffer(fields[_FLOATS][-1], "<f4")
    else:
        values = np.array(_numbers(fields[_INTEGERS]), np.uint64).astype(np.int64).astype(kind)
    return values.reshape(_numbers(fields.get(_DIMS, [])))


def _message(data: bytes) -> _Message:
    """The fields of a message, a protocol buffer."""
    found, at = _Message(), 0
    while at < len(data):
        tag, at = _varint(data, at)
        value, at = _varint(data, at)
        if tag & 7 == _BYTES:
            if at + value > len(data):
                raise ValueError("the file ends within a field")
            found.setdefault(tag >> 3, []).append(data[at : at + value])
            at += value
        elif tag & 7 == _VARINT:
            found.setdefault(tag >> 3, []).append(value)
        else:
            # Single numbers of four or eight bytes: no field of a graph that is read here is one.
            raise ValueError(f"wire type {tag & 7}")
    return found


def _numbers(contents: Iterable[int | bytes]) -> list[int]:
    """Numbers that are packed, or stand alone."""
    found = []
    for one in contents:
        packed, at = (one, 0) if isinstance(one, bytes) else (b"", 0)
        if isinstance(one, int):
            found.append(one)
        while at < len(packed):
            number, at = _varint(packed, at)
            found.append(number)
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
