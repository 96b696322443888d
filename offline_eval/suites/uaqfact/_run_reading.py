"""Reading a run of this suite: everything is checked before anything is computed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ....guard.errors import InputError
from ....guard.files import read_jsonl
from ....guard.text import clean_text
from ...data.uaqfact import ChoiceItem, UaqData, UaqItem, read_layout
from ...run import checked_model, read_manifest, stored_rows
from ._plan import MODEL_SYSTEM, QUESTIONS, SUITE, Planned, UaqManifest, UaqRow

_HINT = "run `knowgate eval uaqfact` again into another folder"


@dataclass(frozen=True, slots=True)
class UaqRun:
    """A checked run.

    Attributes:
        manifest: the checked fields.
        data: the questions that were asked.
        rows: in the order in which they were stored; an unfinished run has fewer than the
            manifest says.
    """

    manifest: UaqManifest
    data: UaqData
    rows: tuple[UaqRow, ...]

    @property
    def tasks(self) -> tuple[int, ...]:
        """That were asked for."""
        return tuple(self.manifest.settings["tasks"])


def read_uaqfact_run(folder: str | os.PathLike[str]) -> UaqRun:
    """A run of this suite, finished or not.

    Raises:
        InputError: no such run there, or a file that is missing, broken or written by a newer
            knowgate; names file and line.
    """
    root = Path(folder)
    value = read_manifest(root)
    where = str(root / "manifest.json")
    if value.get("suite") != SUITE:
        raise InputError(
            f"the run is of suite {value.get('suite')!r}, not {SUITE!r}",
            where=where,
            hint="name a run made with `knowgate eval uaqfact`",
        )
    manifest = checked_model(UaqManifest, value, where=where, hint=_HINT)
    settings = manifest.settings
    tasks, languages = settings.get("tasks"), settings.get("languages")
    if not isinstance(tasks, list) or not isinstance(languages, list):
        raise InputError("settings lack tasks or languages", where=where, hint=_HINT)
    data = read_layout(root / QUESTIONS, languages=languages, tasks=tasks)
    rows: dict[str, UaqRow] = {}
    for place, row_value in stored_rows(root / "rows"):
        row = checked_model(UaqRow, row_value, where=place, hint=_HINT)
        if row.system not in manifest.systems:
            raise InputError(f"the run has no system {row.system[:60]!r}", where=place, hint=_HINT)
        rows[row.row_id] = row
    known = {item.key for item in data.items} | {choice.key for choice in data.choices}
    for row in rows.values():
        if row.key not in known:
            raise InputError(
                f"row {row.row_id[:80]!r} answers no question of the run",
                where=str(root / "rows"),
                hint=_HINT,
            )
    if not rows:
        raise InputError(
            f"the run is not finished (0 of {manifest.rows} rows)",
            where=str(root),
            hint="start the same `knowgate eval uaqfact` again, it goes on where it stopped",
        )
    return UaqRun(manifest, data, tuple(rows.values()))


_HINT_REPLAY = (
    'each line needs "response" and "key", or "qid" with "form", "language", "type", "kind"'
)
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
            raise InputError("the file holds no replies", where=self.path, hint=_HINT_REPLAY)

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
                hint='give "language", "type" and "kind", or the "key"',
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
            raise InputError("field 'response' must be text", where=where, hint=_HINT_REPLAY)
        key, qid = value.get("key"), value.get("qid")
        text = clean_text(response)
        if isinstance(key, str):
            if self._by_key.setdefault((form, key), text) != text:
                raise InputError(
                    f"{key[:60]!r} was answered before, in other words",
                    where=where,
                    hint=_HINT_REPLAY,
                )
        elif isinstance(qid, str):
            self._by_qid.setdefault((form, qid), []).append((dict(value), text))
        else:
            raise InputError("neither 'key' nor 'qid'", where=where, hint=_HINT_REPLAY)
        self.lines += 1


def _fits(value: Mapping[str, object], item: UaqItem | ChoiceItem) -> bool:
    wanted = {"language": item.language, "lan": item.language, "type": item.type.value}
    if isinstance(item, UaqItem):
        wanted["kind"] = item.kind.value
    return all(value.get(name) in (None, expected) for name, expected in wanted.items())
