"""Read foreign files into pydantic models: each error names file, line and field.

One reader for everything that comes from outside: questions, records, logs, exports of other
tools. A model says what a line must be; what it says about a fault is what the user reads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import fields
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import ArgsKwargs

from .errors import InputError, first_fault, in_one_line
from .files import AnyPath, read_json, read_jsonl

Model = TypeVar("Model", bound=BaseModel)
Count = Annotated[int, Field(ge=1)]
_HINT = "fix the file or write it again"


def read_models(
    path: AnyPath, model: type[Model], *, hint: str = _HINT, links: bool = True
) -> Iterator[tuple[str, Model]]:
    """Yield each line of a JSON-lines file as a model, with its place as `file:line`.

    Args:
        path: of the file; blank lines are skipped.
        model: what each line must be.
        hint: what to do about a line that is none.
        links: whether the path may be a link to a regular file.

    Raises:
        InputError: the file cannot be read, or a line is not such a model; names the first fault.
    """
    for number, value in read_jsonl(path, links=links):
        where = f"{os.fspath(path)}:{number}"
        yield where, check_model(model, value, where=where, hint=hint)


def read_model(path: AnyPath, model: type[Model], *, hint: str = _HINT) -> Model:
    """Read a JSON file that holds one model.

    Args:
        path: of the file.
        model: what the file must be.
        hint: what to do about a file that is none.

    Raises:
        InputError: the file cannot be read, or is not such a model; names the first fault.
    """
    return check_model(model, read_json(path), where=os.fspath(path), hint=hint)


def check_model(model: type[Model], value: Any, *, where: str, hint: str = _HINT) -> Model:
    """Check a JSON value.

    Args:
        model: what the value must be.
        value: as read from JSON.
        where: file and line.
        hint: what to do about a value that is none.

    Raises:
        InputError: a field is missing or wrong; names the first.
    """
    try:
        return model.model_validate(value)
    except RecursionError:
        raise InputError("nested too deeply", where=where, hint=hint) from None
    except ValidationError as error:
        raise InputError(first_fault(error), where=where, hint=hint) from None


class CheckedSettings:
    """What settings are derived from that pydantic checks: a wrong one is one line.

    Raises:
        InputError: in place of pydantic's own error.
    """

    @model_validator(mode="wrap")
    @classmethod
    def _in_one_line(cls, given: Any, validate: ModelWrapValidatorHandler[Any]) -> Any:
        if isinstance(given, ArgsKwargs):
            settings: Any = cls
            names = [one.name for one in fields(settings) if one.init]
            named, others = dict(zip(names, given.args, strict=False)), given.kwargs or {}
            # By name, so that an error names what was given by its position.
            if len(named) == len(given.args) and not named.keys() & others.keys():
                given = ArgsKwargs((), {**named, **others})
        return in_one_line(given, validate)
