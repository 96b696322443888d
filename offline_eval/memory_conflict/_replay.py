"""Replies that were logged elsewhere, in place of a model's."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ...guard import InputError, clean_text
from ...guard.files import read_jsonl

_MEND = (
    'each line needs "response", and "row_id" (`model/CK/HPC/<key>`) or "key" with "task" and '
    '"evidence"'
)


class ReplayedReplies:
    """Logged replies, found by the row that they answer.

    Args:
        path: JSON lines with `response`, and either `row_id` as in `rows.jsonl` or `key`,
            `task` and `evidence` (none for `closed_book` and `guard_removes`), with `system`
            where it is not `model`.

    Raises:
        InputError: a line is broken, or answers a question again in other words.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._replies: dict[str, str] = {}
        for number, value in read_jsonl(path):
            where = f"{self.path}:{number}"
            response, identifier = value.get("response"), _identifier(value)
            if not isinstance(response, str) or identifier is None:
                raise InputError("is no logged reply", where=where, mend=_MEND)
            text = clean_text(response)
            if self._replies.setdefault(identifier, text) != text:
                raise InputError(
                    f"{identifier[:80]!r} was answered before, in other words", where=where
                )
        if not self._replies:
            raise InputError("the file holds no replies", where=self.path, mend=_MEND)

    def find(self, row_id: str) -> str | None:
        """The reply to a row's question; None where none was logged."""
        return self._replies.get(row_id)


def _identifier(value: Mapping[str, object]) -> str | None:
    given = value.get("row_id")
    if isinstance(given, str):
        return given
    key, task = value.get("key"), value.get("task")
    if not isinstance(key, str) or not isinstance(task, str):
        return None
    return f"{value.get('system', 'model')}/{task}/{value.get('evidence') or '-'}/{key}"
