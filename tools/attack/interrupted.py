"""Commands that write, on a disk that is full and with kills: is anything left half-written?

After each interruption the same command is run again without one. It must end as if nothing had
happened, with the same files.
"""

from __future__ import annotations

import contextlib
import random
import resource
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowgate.offline_eval.cli import main
from tests.support.commands import Program

from .command_line import Ended
from .outcome import Outcome

_INPUTS = Path(__file__).resolve().parents[2] / "tests" / "golden" / "inputs"
_LOGGED = "in/gpt_runs/few_BASIC_RAG_basic.jsonl"
_LM_EVAL = "in/lm_eval/some__model/samples_colours_2025-01-01T00-00-00.jsonl"
# What a command writes, after what those before it wrote.
_COMMANDS = (
    ("measure --questions in/few.jsonl --scorer lexical --out run", "run"),
    (
        "calibrate --run run --risk 0.6 --delta 0.5 --share 0.5 --write-anyway --out policy.json",
        "policy.json",
    ),
    ("report run --out report --format html,md,json", "report"),
    (
        f"eval ookb --questions in/few.jsonl --replay {_LOGGED} --judge none --out replies",
        "replies",
    ),
    ("judge replies --judge detector", "replies"),
    (f"import lm-eval {_LM_EVAL} --out imported", "imported"),
    ("kb build in/docs --out kb", "kb"),
    ("dashboards --out dashboards", "dashboards"),
    ("init --questions in/few.jsonl", "knowgate.toml"),
)
_QUICK = ("report", "judge")
# Written anew by each run, with the time or the place in it.
_NOT_COMPARED = {".html", ".png"}


@dataclass(frozen=True)
class _Command:
    line: str
    made: str

    @property
    def name(self) -> str:
        return self.line.partition(" ")[0]

    def run(
        self, folder: Path, *, most_bytes: int | None = None, kill_after: float | None = None
    ) -> Ended:
        """Run it, perhaps with a limit to the size of files, or until it is killed."""
        with Program(_knowgate, self.line.split(), most_bytes, cwd=folder) as process:
            if kill_after is not None:
                time.sleep(kill_after)
                with contextlib.suppress(ProcessLookupError):  # it has ended
                    process.signal(signal.SIGKILL)
            return Ended(process.wait(), process.err)


def _knowgate(arguments: list[str], most_bytes: int | None) -> None:
    if most_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    sys.argv = ["knowgate", *arguments]
    main()


def attacks(folder: Path, full: bool) -> Iterator[Outcome]:
    """Run each command whole, then limit the size of its files, or kill it, at random."""
    chance = random.Random(11)
    start = folder / "start"
    start.mkdir()
    shutil.copytree(_INPUTS, start / "in", ignore=shutil.ignore_patterns("__pycache__", "*.py"))
    for number, (line, made) in enumerate(_COMMANDS):
        command, whole = _Command(line, made), folder / f"whole{number}"
        shutil.copytree(start, whole)
        began = time.monotonic()
        ended = command.run(whole)
        seconds = time.monotonic() - began
        if ended.code not in (0, 3):
            raise RuntimeError(f"{line}: {ended}")
        if full or command.name in _QUICK:
            tries, most = (4 if full else 1), _largest(whole / made)
            limits = [{"most_bytes": chance.randrange(most)} for _ in range(tries)]
            yield _interrupted(command, "full disk", start, whole, limits)
            kills = [{"kill_after": chance.uniform(0.2, 1.0) * seconds} for _ in range(tries)]
            yield _interrupted(command, "SIGKILL", start, whole, kills)
        start = whole
        if not full and command.name == _QUICK[-1]:
            return


def _interrupted(
    command: _Command, how: str, start: Path, whole: Path, tries: Sequence[Mapping[str, Any]]
) -> Outcome:
    faults = []
    for number, limits in enumerate(tries):
        work = whole.with_name(f"{whole.name}-{number}")
        shutil.copytree(start, work)
        ended = command.run(work, **limits)
        killed = ended.code == -signal.SIGKILL
        if not ended.orderly and not killed:
            faults.append(f"{limits}: {ended.code} {ended.err[-300:]}")
        elif not killed and list(work.rglob("*.tmp")):
            faults.append(f"{limits}: a temporary file is left")
        elif ended.code not in (0, 3) and (again := command.run(work)).code not in (0, 3):
            faults.append(f"{limits}: again: {again.err[-300:]}")
        elif difference := _difference(work / command.made, whole / command.made):
            faults.append(f"{limits}: {difference} differs")
        shutil.rmtree(work)
    return Outcome(f"{command.name}, {how}", len(tries), len(faults), cases=tuple(faults))


def _files(place: Path) -> dict[str, Path]:
    if place.is_file():
        return {place.name: place}
    return {str(path.relative_to(place)): path for path in place.rglob("*") if path.is_file()}


def _largest(place: Path) -> int:
    return max(path.stat().st_size for path in _files(place).values())


def _difference(found: Path, wanted: Path) -> str | None:
    """Return the name of a file that differs, or is there on one side only."""
    ours, theirs = _files(found), _files(wanted)
    for name in sorted(ours.keys() | theirs.keys()):
        if name.endswith(".tmp") or Path(name).name.startswith("."):
            continue
        if name not in ours or name not in theirs:
            return name
        comparable = Path(name).suffix not in _NOT_COMPARED
        if comparable and ours[name].read_bytes() != theirs[name].read_bytes():
            return name
    return None
