"""A value of a file as one of our models, or one line that says what is wrong with it."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ...guard import InputError

_Model = TypeVar("_Model", bound=BaseModel)


def checked_model(kind: type[_Model], value: Any, *, where: str, mend: str) -> _Model:
    """The checked value.

    Args:
        kind: what it is to be.
        value: as read from JSON.
        where: file and line.
        mend: what to do about a broken one.

    Raises:
        InputError: a field is missing or wrong; names the first.
    """
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in fault["loc"])
        what = f"field '{name}': {fault['msg']}" if name else str(fault["msg"])
        raise InputError(what, where=where, mend=mend) from None
