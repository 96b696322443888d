"""Rows that were changed, left out or taken from another run: is anything certified on them?"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .command_line import knowgate
from .outcome import Outcome, tally
from .run_files import INPUTS

Change = Callable[[Path, Path], None]
_MEASURE = "measure --questions {questions} --scorer {scorer} --out {out}"
_REPLAY = "eval ookb --questions {questions} --out {out} --replay {log}"
_CALIBRATE = "calibrate --run {run} --risk 0.4 --delta 0.3 --write-anyway --out {policy}"
_REPORT = "report {run} --format json"


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


def _put(path: Path, lines: list[str]) -> None:
    path.write_text("".join(lines), encoding="utf-8")


def _edited(name: str, field: str, value: Any, place: int = 3) -> Change:
    """Change a field of a line."""

    def change(run: Path, other: Path) -> None:
        del other
        path = run / name
        lines = _lines(path)
        lines[place] = json.dumps({**json.loads(lines[place]), field: value}) + "\n"
        _put(path, lines)

    return change


def _rearranged(name: str, order: Callable[[list[str]], list[str]]) -> Change:
    def change(run: Path, other: Path) -> None:
        del other
        _put(run / name, order(_lines(run / name)))

    return change


def _taken(name: str, places: slice) -> Change:
    """Take lines from the other run, without those of this one."""

    def change(run: Path, other: Path) -> None:
        lines = _lines(run / name)
        lines[places] = _lines(other / name)[places]
        _put(run / name, lines)

    return change


def _other_scorer(run: Path, other: Path) -> None:
    path = run / "manifest.json"
    value = json.loads(path.read_text(encoding="utf-8"))
    found = json.loads((other / "manifest.json").read_text(encoding="utf-8"))
    value["settings"]["scorer"] = found["settings"]["scorer"]
    path.write_text(json.dumps(value), encoding="utf-8")


def _without_digests(run: Path, other: Path) -> None:
    del other
    rows = [json.loads(line) for line in _lines(run / "rows.jsonl")]
    for row in rows:
        row.pop("chain_digest", None)
    _put(run / "rows.jsonl", [json.dumps(row) + "\n" for row in rows])


_PAIR = slice(2, 4)
_TO_ROWS: dict[str, Change] = {
    "all rows of another scorer": _taken("rows.jsonl", slice(None)),
    "two rows of another scorer": _taken("rows.jsonl", _PAIR),
    "the name of another scorer": _other_scorer,
    "an edited relevance": _edited("rows.jsonl", "raw_relevance", 0.01),
    "an edited verdict of retrieval": _edited("rows.jsonl", "retrieval_miss", True, 2),
    "an edited list of passages": _edited("rows.jsonl", "retrieved", ["x"]),
    "a row twice": _rearranged("rows.jsonl", lambda lines: [*lines, lines[0]]),
    "a row dropped": _rearranged("rows.jsonl", lambda lines: [*lines[:3], *lines[4:]]),
    "the first rows dropped": _rearranged("rows.jsonl", lambda lines: lines[2:]),
    "rows in another order": _rearranged("rows.jsonl", lambda lines: lines[::-1]),
    "rows without digests": _without_digests,
    "an edited question": _edited("questions.jsonl", "question", "What is it?"),
    "an edited passage id": _edited("questions.jsonl", "passage_id", "p"),
    "an edited maker": _edited("questions.jsonl", "made_by", ""),
}
_TO_REPLIES: dict[str, Change] = {
    "an edited reply": _edited("replies.jsonl", "response", "I do not know."),
    "a reply dropped": _rearranged("replies.jsonl", lambda lines: lines[1:]),
    "replies of another system": _taken("replies.jsonl", slice(None)),
    "an edited judgement": _edited("judgements.jsonl", "outcome", "yes"),
    "a judgement dropped": _rearranged("judgements.jsonl", lambda lines: lines[1:]),
}


class _Runs:
    """Two runs of one kind that differ in what measured them, and commands that read one."""

    def __init__(self, folder: Path, made: list[str], read: list[str]) -> None:
        self.folder, self._read = folder, read
        folder.mkdir()
        places = {"questions": str(INPUTS / "questions.jsonl")}
        for name, command in zip(("run", "other"), made, strict=True):
            line = command.format_map({**places, "out": str(folder / name)})
            ended = knowgate(*line.split())
            if ended.code not in (0, 3):
                raise RuntimeError(f"{line}: {ended.code} {ended.err}")

    def passes(self, change: Change) -> bool:
        """Whether a command works on the changed run, or does not say in one line what is wrong."""
        copy = self.folder / "changed"
        # A report of a run that is not finished says so.
        for command in self._read[:1] if change is _without_the_last else self._read:
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(self.folder / "run", copy)
            change(copy, self.folder / "other")
            places = {"run": str(copy), "policy": str(self.folder / "policy.json")}
            ended = knowgate(*command.format_map(places).split())
            if ended.code != 2 or not ended.orderly:
                return True
        return False


def _without_a_question(run: Path, other: Path) -> None:
    del other
    first = json.loads(_lines(run / "questions.jsonl")[0])["question_id"]
    for name in ("questions.jsonl", "rows.jsonl"):
        kept = [one for one in _lines(run / name) if json.loads(one)["question_id"] != first]
        _put(run / name, kept)


def _without_the_last(run: Path, other: Path) -> None:
    del other
    _put(run / "rows.jsonl", _lines(run / "rows.jsonl")[:-2])


def attacks(folder: Path, full: bool) -> Iterator[Outcome]:
    """Change rows by accident, then calibrate and report."""
    del full
    made = [_MEASURE.replace("{scorer}", name) for name in ("lexical", "bi_encoder")]
    runs = _Runs(folder / "measured", made, [_CALIBRATE, _REPORT])
    changes = {
        **_TO_ROWS,
        "the last rows dropped": _without_the_last,
        "a question dropped with its rows": _without_a_question,
    }
    yield tally("changed rows of a measured run that count", changes.items(), runs.passes)
    logs = [INPUTS / "gpt_runs" / f"few_BASIC_RAG_{name}.jsonl" for name in _PROMPTS]
    replayed = [
        _REPLAY.replace("{questions}", str(INPUTS / "few.jsonl")).replace("{log}", str(log))
        for log in logs
    ]
    replies = _Runs(folder / "replayed", replayed, [_REPORT])
    yield tally("changed replies and judgements that count", _TO_REPLIES.items(), replies.passes)


_PROMPTS = ("basic", "conservative")
