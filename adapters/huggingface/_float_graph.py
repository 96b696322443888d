"""Make of a dynamically quantised ONNX graph the graph in float32 that its integers stand for.

Dynamic quantisation of ONNX Runtime stores a matrix as 8-bit integers with one scale and one zero
point, and rounds what is multiplied by it to 8 bits, too. Here `scale * (integer - zero)`, the very
matrix of its products, is stored in float32, and nothing is rounded any more:

    DynamicQuantizeLinear(x) -> integers, scale    Identity(x) -> integers; scale is 1
    MatMulInteger(integers, matrix, zeros)         MatMul(integers, matrix)
    DequantizeLinear(table, scale, zero)           Identity(table)

Only what is needed of the format, protocol buffers, is read: the package `onnx` is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...guard.errors import ModelFolderError

# Field numbers of onnx.proto: of a model; of a graph; of a node; of a tensor.
_GRAPH = 7
_NODE, _INITIALIZER, _VALUE_INFO = 1, 5, 13
_INPUT, _OUTPUT, _OPERATOR = 1, 2, 4
_DIMS, _TYPE, _NAME, _RAW = 1, 2, 8, 9
_FLOATS, _INTEGERS = 4, 5
# Its numbers of the types of tensors that are read here.
_FLOAT = 1
_TYPES: Mapping[int, Any] = MappingProxyType({_FLOAT: np.float32, 2: np.uint8, 3: np.int8})
_VARINT, _BYTES = 0, 2
_QUANTISED, _SCALE, _ZERO = "_quantized", "_scale", "_zero_point"
_IN_FLOAT32 = MappingProxyType(
    {
        "DynamicQuantizeLinear": "Identity",
        "DequantizeLinear": "Identity",
        "MatMulInteger": "MatMul",
    }
)
# Number and content of a field: whole numbers as such, everything else as bytes.
_Field = tuple[int, int | bytes]


@dataclass(frozen=True, slots=True)
class _Tensor:
    name: str
    values: NDArray[Any]


def float_graph(path: Path) -> bytes:
    """The graph in float32.

    Raises:
        ModelFolderError: the file is missing, damaged, or not such a graph.
    """
    try:
        model = list(_fields(path.read_bytes()))
        graph = dict(model)[_GRAPH]
        assert isinstance(graph, bytes)
        rewritten = _message(_rewritten(list(_fields(graph))))
    except (OSError, KeyError, IndexError, ValueError, AssertionError) as error:
        raise ModelFolderError(
            f"cannot be read as a quantised ONNX graph ({type(error).__name__})",
            where=str(path),
            hint="check that the file is whole",
        ) from error
    return _message((one, rewritten if one == _GRAPH else value) for one, value in model)


def _rewritten(graph: list[_Field]) -> Iterator[_Field]:
    stored = {number: value for number, value in enumerate(graph) if value[0] == _INITIALIZER}
    names = {number: _name(_bytes(field)) for number, field in stored.items()}
    by_name = {name: _bytes(stored[number]) for number, name in names.items()}
    quantised = {name for name in by_name if name.endswith(_QUANTISED)}
    if not quantised:
        raise ValueError("no matrix in 8 bits")
    about = {name.removesuffix(_QUANTISED) + end for name in quantised for end in (_SCALE, _ZERO)}
    for number, field in enumerate(graph):
        name = names.get(number)
        if field[0] == _NODE:
            yield from _node(list(_fields(_bytes(field))))
        elif name in quantised:
            yield _INITIALIZER, _stored(_dequantised(name, by_name))
        elif name in about:
            # The products multiply by the scale once more; the zero is asked for no more.
            if name.endswith(_SCALE):
                yield _INITIALIZER, _stored(_Tensor(name, np.ones((), np.float32)))
        elif field[0] != _VALUE_INFO:  # which says that values in between are integers
            yield field


def _node(fields: list[_Field]) -> Iterator[_Field]:
    operator = next((_bytes(one).decode() for one in fields if one[0] == _OPERATOR), "")
    if operator not in _IN_FLOAT32:
        yield _NODE, _message(fields)
        return
    inputs = [one for one in fields if one[0] == _INPUT]
    outputs = [one for one in fields if one[0] == _OUTPUT]
    taken = inputs[: 2 if operator == "MatMulInteger" else 1]
    yield _NODE, _message([*taken, outputs[0], (_OPERATOR, _IN_FLOAT32[operator].encode())])
    if operator == "DynamicQuantizeLinear":
        scale = _bytes(outputs[1]).decode()
        yield _INITIALIZER, _stored(_Tensor(scale, np.ones((), np.float32)))


def _dequantised(name: str, by_name: Mapping[str, bytes]) -> _Tensor:
    stem = name.removesuffix(_QUANTISED)
    values, scale, zero = (
        _tensor(by_name[stem + end]).values for end in (_QUANTISED, _SCALE, _ZERO)
    )
    whole = values.astype(np.int32) - zero.astype(np.int32)
    return _Tensor(name, whole.astype(np.float32) * scale.astype(np.float32))


def _name(data: bytes) -> str:
    return next(_bytes(one).decode() for one in _fields(data) if one[0] == _NAME)


def _tensor(data: bytes) -> _Tensor:
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
    return _Tensor(_name(data), values.reshape(shape))


def _stored(tensor: _Tensor) -> bytes:
    return _message(
        [
            *((_DIMS, size) for size in tensor.values.shape),
            (_TYPE, _FLOAT),
            (_NAME, tensor.name.encode()),
            (_RAW, tensor.values.astype("<f4").tobytes()),
        ]
    )


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


def _message(fields: Iterable[_Field]) -> bytes:
    parts: list[bytes] = []
    for number, value in fields:
        if isinstance(value, int):
            parts += [_as_varint(number << 3 | _VARINT), _as_varint(value)]
        else:
            parts += [_as_varint(number << 3 | _BYTES), _as_varint(len(value)), value]
    return b"".join(parts)


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


def _as_varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
