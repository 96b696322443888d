"""The line of a JSON text on which a value begins, for messages."""

from __future__ import annotations

import json
from collections.abc import Sequence

_DECODER = json.JSONDecoder()
_SPACE = " \t\r\n"


def line_of(text: str, path: Sequence[str | int]) -> int:
    """Line (from 1) of the value that `path` leads to, or of the last step that is there.

    Args:
        text: whole, valid JSON.
        path: keys of objects and indices of lists, from the outermost.
    """
    try:
        return text.count("\n", 0, _position(text, path)) + 1
    except (ValueError, IndexError, RecursionError):
        return 1


def _position(text: str, path: Sequence[str | int]) -> int:
    position = _past(text, 0, _SPACE)
    for step in path:
        if text[position] == "{" and isinstance(step, str):
            found = _member(text, position, step)
        elif text[position] == "[" and isinstance(step, int):
            found = _item(text, position, step)
        else:
            found = None
        if found is None:
            break
        position = found
    return position


def _member(text: str, position: int, name: str) -> int | None:
    """Where the last member of this name has its value, as readers of JSON take the last."""
    found = None
    position = _past(text, position + 1, _SPACE)
    while text[position] != "}":
        key, position = _DECODER.raw_decode(text, position)
        position = _past(text, position, _SPACE + ":")
        if key == name:
            found = position
        _, position = _DECODER.raw_decode(text, position)
        position = _past(text, position, _SPACE + ",")
    return found


def _item(text: str, position: int, index: int) -> int | None:
    position = _past(text, position + 1, _SPACE)
    for _ in range(index):
        if text[position] == "]":
            return None
        _, position = _DECODER.raw_decode(text, position)
        position = _past(text, position, _SPACE + ",")
    return None if text[position] == "]" else position


def _past(text: str, position: int, skipped: str) -> int:
    while text[position] in skipped:
        position += 1
    return position
