"""Files of questions in all their forms, and the fields of the objects in them."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from ...guard.errors import NO_JSON, InputError
from ...guard.files import AnyPath, read_json, read_jsonl, read_text
from ...guard.text import clean_text

# Excel writes and reads this line; it is no head.
_SEPARATOR_LINE = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)
_QUOTED = re.compile(r'"[^"]*"')


# Names that the id of a question may have.
ID_FIELDS = ("id", "question_id", "identifier")

# Where the fields of one question, or of one row, stand; and these.
Placed = tuple[str, Mapping[str, Any]]


def read_csv(
    path: AnyPath,
    *,
    needed: str = "question",
    others: str = "answer, and perhaps id, passage, source, topic",
) -> list[Placed]:
    """Read a file with a head, and commas, semicolons or tabs between cells.

    Args:
        path: of the file.
        needed: a column without which it is another file.
        others: further columns, for the hint of that error.

    Returns:
        File and line of each row, and its cells that are not empty, by `field_name` of their
        column.

    Raises:
        InputError: it has no such column, a quote is not closed, or a row has more cells
            than the head; the message names file and line.
    """
    where, text = os.fspath(path), read_text(path)
    stated = _SEPARATOR_LINE.match(text)
    delimiter = stated[1] if stated else delimiter_of(text, tabs=where.lower().endswith(".tsv"))
    first = (text[stated.end() :], 2) if stated else (text, 1)
    records = _records(*first, delimiter, where)
    head, columns = next(records, (f"{where}:1", []))
    names = [field_name(column) for column in columns]
    for at, name in enumerate(names):
        if name and name in names[:at]:
            what = f"two columns are called {name[:60]!r}"
            raise InputError(what, where=head, hint="rename one of them")
    if needed not in names:
        found = ", ".join(name[:60] for name in names if name) or "nothing"
        what = f"there is no column {needed!r} (found: {found[:200]})"
        hint = f"the first line names the columns: {needed}, {others}"
        raise InputError(what, where=head, hint=hint)
    rows: list[Placed] = []
    for place, cells in records:
        if any(cell.strip() for cell in cells[len(names) :]):
            what = f"has {len(cells)} cells, and the head has {len(names)}"
            hint = f'put text with {delimiter!r} in it in "…"'
            raise InputError(what, where=place, hint=hint)
        named = zip(names, cells, strict=False)
        row = {name: one.replace("\r\n", "\n") for name, one in named if name and one.strip()}
        rows.append((place, row))
    return rows


def read_questions(path: AnyPath) -> list[Placed]:
    """Read a file of questions: JSON lines, a JSON list, a document with such a list, or CSV.

    JSON lines are known by what they are, whatever the name.

    Raises:
        InputError: it cannot be read, or is none of these; names file and line or item.
    """
    where = os.fspath(path)
    if Path(path).suffix.lower() in (".csv", ".tsv"):
        return read_csv(path)
    if Path(path).suffix.lower() in (".jsonl", ".ndjson") or _holds_lines(read_text(path)):
        return [(f"{where}:{line}", row) for line, row in read_jsonl(path)]
    whole = read_json(path)
    items = whole.get("questions") if isinstance(whole, dict) else whole
    if not isinstance(items, list):
        what = "expected a list of questions, or an object whose field 'questions' is one"
        hint = "use a KnowOrNot question document, or JSON lines in a .jsonl file"
        raise InputError(what, where=where, hint=hint)
    rows = [(f"{where}: questions[{place}]", item) for place, item in enumerate(items)]
    for place, item in rows:
        if not isinstance(item, dict):
            what = f"expected a JSON object, found {type(item).__name__}"
            raise InputError(what, where=place, hint="each record is an object with its fields")
    return rows


def _holds_lines(text: str) -> bool:
    """Whether the first line is an object by itself and more follows."""
    first, _, rest = text.strip().partition("\n")
    with suppress(*NO_JSON):
        return bool(rest.strip()) and isinstance(json.loads(first), dict)
    return False


def field_name(column: str) -> str:
    """Return the name of a column as a field.

    Example:
        >>> field_name(" Question ID ")
        'question_id'
    """
    return "_".join(column.lower().split())


def delimiter_of(text: str, *, tabs: bool) -> str:
    """Tell what is between cells.

    Args:
        text: of a table with a head: semicolon, comma or tab, whichever that has most of outside
            quotes.
        tabs: it is tabs, by the name of the file.
    """
    head = _QUOTED.sub("", text.lstrip().partition("\n")[0])
    return "\t" if tabs else max(",;\t", key=head.count)


def _records(text: str, line: int, delimiter: str, where: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the records that are not empty, and where each begins; the first one at a line."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        place = f"{where}:{line + reader.line_num}"
        try:
            cells = next(reader, None)
        except csv.Error as error:
            hint = 'put text with quotes, line breaks or separators in "…", and write " as ""'
            raise InputError(f"broken CSV ({error})", where=place, hint=hint) from None
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield place, cells


# A spreadsheet takes a cell that starts so for a formula, and runs it.
# Full-width signs count as well in some languages' versions.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def as_cell(text: str) -> str:
    """A text as a spreadsheet takes it: with an apostrophe where it looks like a formula."""
    return f"'{text}" if text.lstrip("'").startswith(_FORMULA) else text


def from_cell(text: str) -> str:
    """A text as it was before it became a cell.

    Example:
        >>> from_cell(as_cell("=1+1")), from_cell("'tis")
        ('=1+1', "'tis")
    """
    return text[1:] if text[:1] == "'" and as_cell(text) != text else text


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


def _not_blank(text: str) -> str:
    # Cleaned before: of nothing but NUL, nothing is left.
    if not text.strip():
        raise ValueError("is empty")
    return text


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Said = Annotated[Text, AfterValidator(_not_blank)]
Numbered = Annotated[Said, BeforeValidator(_as_text)]


def without_nulls(value: Any, kept: Collection[str] = ()) -> Any:
    """Return a JSON value whose objects lack the fields that are null: those say nothing.

    Args:
        value: as read.
        kept: fields of which null says something.

    Example:
        >>> without_nulls({"a": None, "b": [{"c": None}], "d": None}, kept="d")
        {'b': [{}], 'd': None}
    """
    # What is nested deeper than that, whoever checks it refuses.
    with suppress(RecursionError):
        return _pruned(value, kept)
    return value


def _pruned(value: Any, kept: Collection[str]) -> Any:
    if isinstance(value, list):
        return [_pruned(one, kept) for one in value]
    if not isinstance(value, dict):
        return value
    named = ((name, one) for name, one in value.items() if one is not None or name in kept)
    return {name: _pruned(one, kept) for name, one in named}
