"""Rows as lines of JSON: what can be stored, and what was stored whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...guard import InputError

_MEND_FILE = "mend or remove that row, the others stay as they are"


class UnstorableRowError(InputError):
    """JSON cannot hold the row, or its key is no proper text."""


def encode_row(row: Mapping[str, Any], key: str) -> tuple[str, bytes]:
    """The row's key, and the row as one line of UTF-8 JSON without its end.

    Lone surrogates, which UTF-8 cannot hold, are written as `\\udXXX`: inside a JSON
    string that reads back as it was.

    Raises:
        UnstorableRowError: JSON cannot hold the row, or its key is no proper text.
    """
    identifier = row.get(key)
    where = f"row {identifier[:80]!r}" if isinstance(identifier, str) else "row"
    if not isinstance(identifier, str) or not identifier:
        raise UnstorableRowError(f"field {key!r} must be a text that is not empty", where=where)
    try:
        identifier.encode()
        line = json.dumps(dict(row), ensure_ascii=False, allow_nan=False)
    except UnicodeEncodeError:
        raise UnstorableRowError(f"field {key!r} holds half a character", where=where) from None
    except (ValueError, TypeError, RecursionError) as error:
        kind = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UnstorableRowError(f"JSON cannot hold it ({kind})", where=where) from None
    return identifier, line.encode("utf-8", "backslashreplace")


def decode_row(line: bytes | str, where: str) -> dict[str, Any]:
    """The row that a line holds.

    Args:
        line: without its end.
        where: `file:line`, for messages.

    Raises:
        InputError: the line is no JSON object.
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        detail = "not UTF-8" if isinstance(error, UnicodeDecodeError) else "broken JSON"
        raise InputError(f"the row is damaged ({detail})", where=where, mend=_MEND_FILE) from None
    if not isinstance(value, dict):
        raise InputError(
            f"expected a JSON object, found {type(value).__name__}", where=where, mend=_MEND_FILE
        )
    return value


def whole_lines(content: bytes, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """`file:line` and row of every line that has an end; what follows the last one was cut off.

    Raises:
        InputError: such a line is no JSON object.
    """
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        if line.strip():
            where = f"{path}:{number}"
            yield where, decode_row(line, where)


def keys_of(rows: Iterator[tuple[str, dict[str, Any]]], key: str) -> dict[str, None]:
    """The rows' keys in order.

    Raises:
        InputError: a row lacks its key, or two have the same.
    """
    keys: dict[str, None] = {}
    for where, row in rows:
        identifier = row.get(key)
        if not isinstance(identifier, str) or not identifier:
            raise InputError(f"field {key!r} is missing or no text", where=where, mend=_MEND_FILE)
        if identifier in keys:
            raise InputError(
                f"{key} {identifier[:80]!r} stands here a second time",
                where=where,
                mend=_MEND_FILE,
            )
        keys[identifier] = None
    return keys
