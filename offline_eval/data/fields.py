"""Fields of the JSON objects that question files hold, checked as they are read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from ...guard.files import read_jsonl
from ...guard.text import clean_text
from ._question_file import CsvFile


def _cleaned(value: Any) -> Any:
    return clean_text(value) if isinstance(value, str) else value


def _named(value: Any) -> Any:
    """Ids as text: some tools number their questions."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return clean_text(str(value)).strip() if whole or isinstance(value, str) else value


# Fields of pydantic models that read files of others.
Text = Annotated[str, BeforeValidator(_cleaned)]
NamedText = Annotated[str, BeforeValidator(_named)]
Filled = Annotated[str, BeforeValidator(_named), Field(min_length=1)]
Identifier = Filled


def _not_blank(text: str) -> str:
    # Cleaned before: of nothing but NUL, nothing is left.
    if not text.strip():
        raise ValueError("is empty")
    return text


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Said = Annotated[Text, AfterValidator(_not_blank)]
Numbered = Annotated[Said, BeforeValidator(_as_text)]


def rows_of_table(
    path: str | os.PathLike[str], *, needed: str, others: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Read the rows of a CSV file, or of JSON lines, each with where it stands.

    Args:
        path: CSV if it is named so.
        needed: a column without which a CSV file is another one.
        others: further columns, for the hint of that error.

    Raises:
        InputError: the file cannot be read, or a line of it is broken.
    """
    rows: Iterable[tuple[int, Mapping[str, Any]]] = (
        CsvFile.read(path, needed=needed, others=others).rows
        if CsvFile.is_named_so(path)
        else read_jsonl(path)
    )
    for number, value in rows:
        yield f"{os.fspath(path)}:{number}", value
