"""Logged replies to the questions of this suite."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ....guard.errors import InputError
from ...data.graph import UaqItem
from ...systems import LogEntry, LoggedReplies
from .._parts import MODEL_SYSTEM
from ._plan import Planned

_HINT = 'each line needs "response" and "key", or "qid" with "form", "language", "type", "kind"'
_FORMS = {1: "question", 2: "choice", 3: "clue"}


def read_replies(path: str | os.PathLike[str]) -> LoggedReplies:
    """Read logged replies, which then take the place of a model.

    Args:
        path: JSON lines with `response`, and either `key` (as in `rows.jsonl`) or `qid` with
            as much of `language`, `type` and `kind` as identifies the question; `form` or `task`
            says how it was asked (task 1 by default, task 3 with its clue). In a run's own
            `rows.jsonl`, failures and the rows of guards are ignored, and a letter chosen by
            scores stands for a reply.

    Raises:
        InputError: a line is broken, or answers a question again in other words.
    """
    return LoggedReplies(path, _entry, hint=_HINT)


def find_reply(replies: LoggedReplies, planned: Planned) -> str | None:
    """Return the reply to a question in a form; None where none was logged.

    Raises:
        InputError: several lines may be meant.
    """
    item = planned.item
    by_key = replies.find((planned.form, "key", item.key))
    if by_key is not None:
        return by_key
    fields = {"language": item.language, "type": item.type.value}
    if isinstance(item, UaqItem):
        fields["kind"] = item.kind.value
    return replies.find((planned.form, "qid", item.qid), fields)


def _entry(line: Mapping[str, Any]) -> LogEntry | None:
    if line.get("system", MODEL_SYSTEM) != MODEL_SYSTEM or line.get("error"):
        return None
    response, form = line.get("response"), line.get("form")
    if response is None and form == "choice":
        response = line.get("letter")
    if form is None:
        task = line.get("task", 1)
        form = _FORMS.get(task) if isinstance(task, int) else None
    if not isinstance(form, str):
        raise InputError("neither 'form' nor 'task' names a form of question")
    if isinstance(line.get("key"), str):
        return LogEntry((form, "key", line["key"]), response)
    if not isinstance(line.get("qid"), str):
        raise InputError("neither 'key' nor 'qid'")
    fields = {**line, "language": line.get("language", line.get("lan"))}
    return LogEntry((form, "qid", line["qid"]), response, fields, unique=False)
