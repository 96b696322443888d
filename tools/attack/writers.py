"""Two commands that write into one folder at once: is a row lost, repeated, or mixed?

Each must end with its work or one line, and what is there must be what one of them writes alone.
"""

from __future__ import annotations

import json
import random
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from knowgate.offline_eval.judging.labelling.session import LabelSession
from knowgate.offline_eval.run import RepliesRun
from tests.support.commands import Program, command

from .command_line import Ended, knowgate
from .interrupted import INPUTS, difference
from .outcome import Outcome

_BASIC, _CONSERVATIVE = (
    f"in/gpt_runs/few_BASIC_RAG_{name}.jsonl" for name in ("basic", "conservative")
)
_MEASURE = "measure --questions in/questions.jsonl --scorer {} --out run"
_REPLAY = "eval ookb --questions in/few.jsonl --judge none --out replies --replay {}"
_CALIBRATE = "calibrate --run run --risk 0.6 --delta 0.5 --write-anyway --out policy.json"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two commands at once.

    Attributes:
        name: of the pair.
        one, other: the commands.
        made: what both write.
        before: commands that run before.
    """

    name: str
    one: str
    other: str
    made: str
    before: tuple[str, ...] = ()


_LEXICAL = _MEASURE.format("lexical")
_REPLAYED = _REPLAY.format(_BASIC)
_JUDGE = "judge replies --judge detector"
PAIRS = (
    Pair("measure", _LEXICAL, _LEXICAL, "run"),
    Pair("measure with two scorers", _LEXICAL, _MEASURE.format("bi_encoder"), "run"),
    Pair("eval ookb", _REPLAYED, _REPLAYED, "replies"),
    Pair("eval ookb on two logs", _REPLAYED, _REPLAY.format(_CONSERVATIVE), "replies"),
    Pair("eval ookb and judge", _REPLAYED, _JUDGE, "replies"),
    Pair("judge", _JUDGE, _JUDGE, "replies", (_REPLAYED,)),
    Pair("calibrate", _CALIBRATE, _CALIBRATE, "policy.json", (_LEXICAL,)),
    Pair("kb build", "kb build in/docs --out kb", "kb build in/docs --out kb", "kb"),
)
_QUICK = ("judge",)


def attacks(folder: Path, full: bool) -> Iterator[Outcome]:
    """Start two commands at nearly the same time, again and again; label from many threads."""
    chance = random.Random(17)
    for number, pair in enumerate(PAIRS):
        if full or pair.name in _QUICK:
            yield _at_once(pair, folder / f"pair{number}", chance, 4 if full else 1)
    yield labels(folder / "labels", people=3, sessions=3 if full else 2)


def _at_once(pair: Pair, folder: Path, chance: random.Random, tries: int) -> Outcome:
    start = folder / "start"
    shutil.copytree(INPUTS, start / "in", ignore=shutil.ignore_patterns("__pycache__", "*.py"))
    for line in pair.before:
        _alone(line, start)
    alone, seconds = [], 0.0
    for number, line in enumerate(dict.fromkeys((pair.one, pair.other))):
        if line == _JUDGE and not pair.before:
            continue  # it reads what the other writes
        shutil.copytree(start, folder / f"alone{number}")
        began = time.monotonic()
        _alone(line, folder / f"alone{number}")
        seconds = time.monotonic() - began
        alone.append(folder / f"alone{number}" / pair.made)
    faults = []
    for number in range(tries):
        work = folder / f"work{number}"
        shutil.copytree(start, work)
        # The second one comes while the first one loads, works, or writes.
        pause = chance.uniform(0, 0.9) * seconds if number else 0.0
        if fault := _fault(pair, work, alone, pause):
            faults.append(f"{pause:.2f} s: {fault}")
        shutil.rmtree(work)
    return Outcome(f"two writers at once: {pair.name}", tries, len(faults), cases=tuple(faults))


def _alone(line: str, folder: Path) -> None:
    with command(*line.split(), cwd=folder) as process:
        if process.wait() not in (0, 3):
            raise RuntimeError(f"{line}: {process.err}")


def _fault(pair: Pair, work: Path, alone: Sequence[Path], pause: float) -> str:
    """What is wrong after both have ended; empty if nothing is."""
    with command(*pair.one.split(), cwd=work) as one:
        time.sleep(pause)
        with command(*pair.other.split(), cwd=work) as other:
            ended = [_ended(process) for process in (one, other)]
    if wrong := [end for end in ended if not end.orderly]:
        return f"{wrong[0].code} {wrong[0].err[-300:]}"
    if all(end.code == 2 for end in ended):
        return f"none of both works: {ended[0].err} {ended[1].err}"
    if list(work.rglob("*.tmp")):
        return "a temporary file is left"
    if pair.one != pair.other and pair.other == _JUDGE and ended[1].code == 0:
        return ""  # it came after the other one had ended, and has added to it
    differ = [difference(work / pair.made, whole) for whole in alone]
    return "" if None in differ else f"{differ} differ"


def _ended(process: Program) -> Ended:
    return Ended(process.wait(), process.err)


def labels(folder: Path, *, people: int, sessions: int) -> Outcome:
    """Label one run in several sessions of several people at once; every label must be there.

    One is lost, or there twice, if the log does not hold as many whole lines as were given.
    """
    folder.mkdir()
    line = _REPLAYED.replace("in/", f"{INPUTS}/").replace("--out replies", f"--out {folder}/run")
    if (ended := knowgate(*line.split())).code != 0:
        raise RuntimeError(ended.err)
    given, raised = [0] * people, []

    def work(person: int, number: int) -> None:
        try:
            run = RepliesRun.read(folder / "run")
            session = LabelSession.annotate(run, f"person{person}", size=4, seed=1)
            for position in range(len(session)):
                for outcome in ("yes", "no")[:: 1 if number % 2 else -1]:
                    session.label(position, "abstention", outcome)
                    with lock:
                        given[person] += 1
        except Exception as error:  # noqa: BLE001 - counted
            raised.append(f"{type(error).__name__}: {error}")

    lock = threading.Lock()
    threads = [
        threading.Thread(target=work, args=(person, number))
        for person in range(people)
        for number in range(sessions)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for person, count in enumerate(given):
        path = folder / "run" / "labels" / f"person{person}.jsonl"
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        if len([json.loads(one) for one in lines]) != count:
            raised.append(f"person{person}: {len(lines)} of {count} labels")
    return Outcome(
        f"labels lost by {people * sessions} sessions at once", sum(given), len(raised),
        cases=tuple(raised),
    )  # fmt: skip
