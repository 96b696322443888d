"""Damaged files of runs, read by every command that reads runs."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowgate.offline_eval.judging.labelling.session import LabelSession
from knowgate.offline_eval.run import RepliesRun
from tests.support.paths import ROOT

from .command_line import knowgate
from .outcome import Outcome, tally

INPUTS = ROOT / "tests" / "golden" / "inputs"
_DEEP = "[" * 3000 + "]" * 3000
_WRONG: tuple[Any, ...] = (None, True, -1, 10**400, "\ud800", [], {"a": [1]}, [["x"]])
Damage = Callable[[Path], None]


@dataclass(frozen=True, slots=True)
class RunKind:
    """A kind of run folder.

    Attributes:
        name: of its folder.
        make: commands that make it; `{run}` is its folder, `{at}` the one around it,
            `{in}` that of the inputs.
        read: commands that read it, besides the one that made it.
        slow: whether making or reading it takes seconds.
    """

    name: str
    make: str
    read: tuple[str, ...] = ()
    slow: bool = False


_REPLAYED = "eval ookb --questions {in}/few.jsonl --out {run}" + "".join(
    f" --replay {{in}}/gpt_runs/few_BASIC_RAG_{name}.jsonl" for name in ("basic", "conservative")
)
_REPORT = "report {run} --format json"
RUNS = (
    RunKind(
        "signals",
        "measure --questions {in}/questions.jsonl --scorer lexical --out {run}",
        (
            "calibrate --run {run} --risk 0.4 --delta 0.3 --write-anyway --out {at}/policy.json",
            "calibrate --like {at}/policy.json --run {run} --out {at}/again.json",
            "drift --policy {at}/policy.json --run {run}",
            _REPORT,
        ),
    ),
    RunKind(
        "served",
        "measure --questions {at}/ferry.jsonl --documents {in}/docs --scorer lexical --out {run}",
        ("calibrate --run {run} --risk 0.5 --out {at}/policy2.json", _REPORT),
    ),
    RunKind(
        "replayed",
        _REPLAYED,
        (
            _REPORT,
            "judge {run} --judge detector",
            "label {run} --agreement",
        ),
    ),
    RunKind("kb", "kb build {in}/docs --out {run}"),
    RunKind(
        "conflict",
        "eval conflict --data {in}/conflict.jsonl --model replay "
        "--replies {in}/conflict_log.jsonl --tasks CK --evidence NC,HPC --out {run}",
        (_REPORT,),
    ),
    RunKind(
        "uniknow",
        "eval uniknow --methods naive,guard_naive --limit 12 --scorer lexical --set risk=0.6 "
        "--set delta=0.5 --set questions-per-side=3 --out {run}",
        (_REPORT, "calibrate --run {run} --risk 0.5 --out {at}/policy3.json"),
        slow=True,
    ),
)


def _bytes(content: bytes) -> Damage:
    return lambda path: _write(path, content)


def _changed(change: Callable[[bytes], bytes]) -> Damage:
    return lambda path: _write(path, change(path.read_bytes()))


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _middle(line: bytes) -> Damage:
    """Put a line between the lines of a file."""

    def change(content: bytes) -> bytes:
        lines = content.split(b"\n")
        return b"\n".join([*lines[: len(lines) // 2], line, *lines[len(lines) // 2 :]])

    return _changed(change)


_TEXTS = ('{"schema_version": 99}', "[]", "null", "7", '"text"', "{}", _DEEP, '{"a":', "NaN")
WHOLE_FILE: dict[str, Damage] = {
    "gone": Path.unlink,
    "a folder": _folder,
    "empty": _bytes(b""),
    "one byte short": _changed(lambda content: content[:-1]),
    "half": _changed(lambda content: content[: len(content) // 2]),
    "zeros": _changed(lambda content: bytes(len(content))),
    "a byte that is no UTF-8": _changed(lambda content: content.replace(b'"', b'"\xff', 3)),
    "random bytes": lambda path: _write(path, random.Random(7).randbytes(300)),
    "UTF-16": _changed(lambda content: content.decode("utf-8", "replace").encode("utf-16")),
    "a byte-order mark": _changed(lambda content: b"\xef\xbb\xbf" + content),
    "lines twice": _changed(lambda content: content + content),
    "lines in reverse": _changed(lambda content: b"\n".join(content.split(b"\n")[::-1])),
    "carriage returns": _changed(lambda content: content.replace(b"\n", b"\r\n")),
    **{f"content {text[:24]}": _bytes(text.encode() + b"\n") for text in _TEXTS},
    **{f"a line {text[:24]}": _middle(text.encode()) for text in _TEXTS},
}


def field_damages(path: Path) -> dict[str, Damage]:
    """Damages of single fields of the first object in a JSON or JSON-lines file."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        first = json.loads(lines[0]) if path.suffix == ".jsonl" else json.loads("\n".join(lines))
    except ValueError:
        return {}
    rest = lines[1:] if path.suffix == ".jsonl" else []

    def put(changed: str) -> Damage:
        return _bytes("\n".join([changed, *(rest or [""])]).encode("utf-8", "surrogatepass"))

    found: dict[str, Damage] = {}
    for keys in _paths(first):
        name = ".".join(map(str, keys))
        for wrong in _WRONG:
            label = f"{name} = {json.dumps(wrong)[:12]}"
            found[label] = put(json.dumps(_replaced(first, keys, wrong)))
        found[f"{name} gone"] = put(json.dumps(_replaced(first, keys, _GONE)))
    if isinstance(first, dict):
        for key, value in first.items():
            twice = json.dumps(first)[:-1] + f", {json.dumps(key)}: {json.dumps(value)}}}"
            found[f"{key} twice"] = put(twice)
    return found


_GONE = object()


def _paths(value: Any, depth: int = 2) -> Iterator[tuple[str | int, ...]]:
    children: Any = ()
    if isinstance(value, dict):
        children = value.items()
    elif isinstance(value, list):
        children = list(enumerate(value))[:1]
    for key, child in children:
        yield (key,)
        if depth > 1:
            yield from ((key, *more) for more in _paths(child, depth - 1))


def _replaced(value: Any, keys: tuple[str | int, ...], new: Any) -> Any:
    copy = json.loads(json.dumps(value))
    holder = copy
    for key in keys[:-1]:
        holder = holder[key]
    if new is _GONE:
        del holder[keys[-1]]
    else:
        holder[keys[-1]] = new
    return copy


def _label(run: Path) -> None:
    """Label some replies, as two people would."""
    for name in ("anna", "bob"):
        session = LabelSession.annotate(RepliesRun.read(run), name, size=4, seed=1)
        for position in range(len(session)):
            session.label(position, "abstention", "yes")


_ASKED = (
    {"question": "What does a single crossing cost?", "answer": "2.40 crowns"},
    {"question": "When does the last ferry leave?", "answer": "23:40"},
    {"question": "Who founded the company?", "answer": "Ida Marrow"},
    {"question": "Who mends street lamps?", "answer": "The Light Service"},
)


class DamagedRuns:
    """Run folders of all kinds, and what commands do with damaged copies.

    Args:
        folder: to work in.
        full: also kinds that take seconds, and more damages.
        only: name of one kind.
    """

    def __init__(self, folder: Path, *, full: bool, only: str = "") -> None:
        self.folder, self._full = folder, full
        lines = [json.dumps({"question_id": f"q{i}", **one}) for i, one in enumerate(_ASKED)]
        (folder / "ferry.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        self._random = random.Random(13)
        named = [kind for kind in RUNS if only in ("", kind.name)]
        self.kinds = [kind for kind in named if full or not kind.slow]
        for kind in self.kinds:
            for command in (kind.make, *kind.read):
                if command.startswith("label"):
                    _label(folder / kind.name)
                ended = knowgate(*self._line(command, folder / kind.name))
                if ended.code not in (0, 3):
                    raise RuntimeError(f"{command}: {ended.code} {ended.err}")

    def cases(self, kind: RunKind) -> Iterator[tuple[str, tuple[RunKind, str, str, Damage]]]:
        """Each file of a run with each damage and each command, or a selection."""
        original = self.folder / kind.name
        for path in sorted(original.rglob("*.json*")):
            damages = {**WHOLE_FILE, **field_damages(path)}
            for label, damage in damages.items():
                for command in (kind.make, *kind.read):
                    # Reading is quick, but there are thousands of ways.
                    if self._random.random() < (0.015 if self._full else 0.001):
                        name = str(path.relative_to(original))
                        words = " ".join(command.split()[:2])
                        yield f"{kind.name}/{name}: {label} ({words})", (
                            kind, name, command, damage,
                        )  # fmt: skip

    def disorderly(self, case: tuple[RunKind, str, str, Damage]) -> bool:
        """Whether a command met a damaged file with anything but a result or one line."""
        kind, name, command, damage = case
        copy = self.folder / "damaged" / kind.name
        shutil.rmtree(copy.parent, ignore_errors=True)
        shutil.copytree(self.folder / kind.name, copy)
        for beside in self.folder.glob("*.json*"):
            shutil.copy(beside, copy.parent)
        rows = copy / "rows.jsonl"
        if command == kind.make and name != rows.name and rows.exists():
            # Unfinished, so that the damaged file is not only read but continued.
            rows.write_bytes(b"".join(rows.read_bytes().splitlines(keepends=True)[:1]))
        damage(copy / name)
        with contextlib.chdir(copy.parent):
            ended = knowgate(*self._line(command, copy))
        # Texts that were judged are no input: a run is not continued over damaged ones.
        orderly = ended.orderly and not (ended.code == 1 and name == "passages.jsonl")
        if not orderly and os.environ.get("ATTACK_SHOW"):
            print(name, ended.code, ended.err[-300:])
        return not orderly

    @staticmethod
    def _line(command: str, run: Path) -> list[str]:
        places = {"in": str(INPUTS), "run": str(run), "at": str(run.parent)}
        return [word.format_map(places) for word in command.split()]


def attacks(folder: Path, full: bool) -> Iterator[Outcome]:
    """Damage every file of every kind of run."""
    runs = DamagedRuns(folder, full=full)
    for kind in runs.kinds:
        yield tally(f"damaged files of a run: {kind.name}", runs.cases(kind), runs.disorderly)
