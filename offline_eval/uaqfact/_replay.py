"""Replies that were logged elsewhere, in place of a model's."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ...guard import InputError, clean_text
from ...guard.files import read_jsonl
from ._items import ChoiceItem, UaqItem
from ._plan import Planned
from ._rows import MODEL_SYSTEM

_MEND = 'each line needs "response" and "key", or "qid" with "form", "language", "type", "kind"'
_FORMS = {1: "question", 2: "choice", 3: "clue"}


class ReplayedReplies:
    """Logged replies, found by the question they answer.

    Args:
        path: JSON lines with `response`, and either `key` (as in `rows.jsonl`) or `qid` with
            as much of `language`, `type` and `kind` as tells the question; `form`, or `task`,
            says how it was put (task 1 by default, task 3 with its clue). In a run's own
            `rows.jsonl`, failures and the rows of guards are passed over, and a letter that
            scores chose stands for a reply.

    Raises:
        InputError: a line is broken, or answers a question again with other words.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._by_key: dict[tuple[str, str], str] = {}
        self._by_qid: dict[tuple[str, str], list[tuple[Mapping[str, object], str]]] = {}
        self.lines = 0
        for number, value in read_jsonl(path):
            if value.get("system", MODEL_SYSTEM) != MODEL_SYSTEM or value.get("error"):
                continue
            self._take(f"{self.path}:{number}", value)
        if not self.lines:
            raise InputError("the file holds no replies", where=self.path, mend=_MEND)

    def find(self, planned: Planned) -> str | None:
        """The reply to a question in a form; None where none was logged.

        Raises:
            InputError: several lines may be meant.
        """
        item = planned.item
        found = self._by_key.get((planned.form, item.key))
        if found is not None:
            return found
        fitting = {
            response
            for value, response in self._by_qid.get((planned.form, item.qid), [])
            if _fits(value, item)
        }
        if len(fitting) > 1:
            raise InputError(
                f"several replies fit question {item.key!r}",
                where=self.path,
                mend='give "language", "type" and "kind", or the "key"',
            )
        return next(iter(fitting), None)

    def _take(self, where: str, value: Mapping[str, object]) -> None:
        response, form = value.get("response"), value.get("form")
        if response is None and form == "choice":
            response = value.get("letter")
        if form is None:
            task = value.get("task", 1)
            form = _FORMS.get(task) if isinstance(task, int) else None
        if not isinstance(response, str) or not isinstance(form, str):
            raise InputError("field 'response' must be text", where=where, mend=_MEND)
        key, qid = value.get("key"), value.get("qid")
        text = clean_text(response)
        if isinstance(key, str):
            if self._by_key.setdefault((form, key), text) != text:
                raise InputError(
                    f"{key[:60]!r} was answered before, in other words", where=where, mend=_MEND
                )
        elif isinstance(qid, str):
            self._by_qid.setdefault((form, qid), []).append((dict(value), text))
        else:
            raise InputError("neither 'key' nor 'qid'", where=where, mend=_MEND)
        self.lines += 1


def _fits(value: Mapping[str, object], item: UaqItem | ChoiceItem) -> bool:
    wanted = {"language": item.language, "lan": item.language, "type": item.type.value}
    if isinstance(item, UaqItem):
        wanted["kind"] = item.kind.value
    return all(value.get(name) in (None, expected) for name, expected in wanted.items())
