"""Logged replies to the questions of this suite."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ....guard.errors import InputError
from ...systems import LogEntry, LoggedReplies

_HINT = (
    'each line needs "response", and "row_id" (`model/CK/HPC/<key>`) or "key" with "task" and '
    '"evidence"'
)


def read_replies(path: str | os.PathLike[str]) -> LoggedReplies:
    """Read logged replies, which then take the place of a model; their keys are row ids.

    Args:
        path: JSON lines with `response`, and either `row_id` as in `rows.jsonl` or `key`,
            `task` and `evidence` (none for `closed_book` and `guard_removes`), with `system`
            where it is not `model`.

    Raises:
        InputError: a line is broken, or answers a question again in other words.
    """
    return LoggedReplies(path, _entry, hint=_HINT)


def _entry(line: Mapping[str, Any]) -> LogEntry:
    row_id, key, task = line.get("row_id"), line.get("key"), line.get("task")
    if not isinstance(row_id, str):
        if not isinstance(key, str) or not isinstance(task, str):
            raise InputError("is not a logged reply")
        row_id = f"{line.get('system', 'model')}/{task}/{line.get('evidence') or '-'}/{key}"
    return LogEntry(row_id, line.get("response"))
