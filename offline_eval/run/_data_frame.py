"""Rows as a data frame of pandas: one line per row, one typed column per field."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from ...guard.errors import optional_import

if TYPE_CHECKING:
    import pandas

# In this order: a bool is an int in Python. Each can say that a value is missing.
_DTYPES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "Int64"),
    (float, "float64"),
    (str, "string"),
)
_OTHER = "object"


def data_frame(rows: Iterable[BaseModel], model: type[BaseModel]) -> pandas.DataFrame:
    """Return one line per row, also of no rows: the model decides columns and dtypes.

    Args:
        rows: of that model.
        model: its fields are the columns; those of a model in it are `field.inner`. Texts and
            enums are `string`, numbers `float64` or `Int64`, truth values `boolean`; sequences
            and mappings stay whole, as `object`.

    Raises:
        MissingDependencyError: pandas is not installed.
    """
    pd = optional_import("pandas")
    columns = list(_columns(model))
    values = [row.model_dump(mode="json") for row in rows]
    return pd.DataFrame(
        {
            ".".join(path): pd.Series([_at(value, path) for value in values], dtype=dtype)
            for path, dtype in columns
        }
    )


def _columns(model: type[BaseModel]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path and the dtype of each column."""
    for name, field in model.model_fields.items():
        inner = list(_types(field.annotation))
        if len(inner) == 1 and issubclass(inner[0], BaseModel):
            for path, dtype in _columns(inner[0]):
                yield (name, *path), dtype
        else:
            yield (name,), _dtype(inner)


def _types(annotation: Any) -> Iterator[type]:
    """Yield the classes that an annotation allows, without None."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        for one in get_args(annotation):
            yield from _types(one)
    elif origin is Annotated:
        yield from _types(get_args(annotation)[0])
    elif origin is Literal:
        yield from {type(value) for value in get_args(annotation)}
    elif origin is not None:
        yield origin
    elif annotation is not type(None):
        yield annotation if isinstance(annotation, type) else object


def _dtype(classes: list[type]) -> str:
    found = {
        next((dtype for kind, dtype in _DTYPES if issubclass(_value_class(one), kind)), _OTHER)
        for one in classes
    }
    if found == {"Int64", "float64"}:
        return "float64"
    return found.pop() if len(found) == 1 else _OTHER


def _value_class(one: type) -> type:
    """Return the class of the values of an enum; another class as it is."""
    if not issubclass(one, Enum):
        return one
    return type(next(iter(one)).value)


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        if value is None:
            return None
        value = value.get(part)  # rows leave some fields out
    return value
