"""Commands that write, on a disk that is full and with kills: is anything left half-written?

A kill comes at one of the moments at which a command writes, forces to disk or replaces a file.
After each interruption the same command is run again without one. It must end as if nothing had
happened, with the same files.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from knowgate.offline_eval.cli import main
from knowgate.offline_eval.judging.labelling.session import LabelSession
from knowgate.offline_eval.run import RepliesRun
from tests.support.commands import Program

from .command_line import Ended
from .outcome import Outcome

INPUTS = Path(__file__).resolve().parents[2] / "tests" / "golden" / "inputs"
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
    (
        "eval conflict --data in/conflict.jsonl --model replay --replies in/conflict_log.jsonl "
        "--tasks CK --evidence NC,HPC --out conflict",
        "conflict",
    ),
    ("kg generate microworld --per-type 3 --examples 4 --out asked", "asked"),
    ("apply --input in/pairs.jsonl --output scores.jsonl --scorer lexical", "scores.jsonl"),
    ("dashboards --out dashboards", "dashboards"),
    ("init --questions in/few.jsonl", "knowgate.toml"),
)
_QUICK = ("report", "judge")
_NO_DISK = 77
# Standard error is a file under the same limit: it has to hold the line that says what is wrong.
_ONE_LINE = 1024
# Written anew by each run, with the time or the place in it.
_NOT_COMPARED = {".html", ".png"}


@dataclass(frozen=True)
class _Command:
    line: str
    made: str

    @property
    def name(self) -> str:
        return self.line.partition(" ")[0]

    def run(self, folder: Path, limits: Limits | None = None) -> Ended:
        """Run it in a folder, perhaps with limits."""
        with Program(_knowgate, self.line.split(), limits or Limits(), cwd=folder) as process:
            return Ended(process.wait(), process.err)


@dataclass(frozen=True, slots=True)
class Limits:
    """What stops a command.

    Attributes:
        most_bytes: of a file.
        disk: bytes of the file system in which its folder is; the folder is copied into it, and
            back to where it was.
        dies_at: number of the moment at which it is killed, from 0.
        moments: file to which the number of moments is written.
    """

    most_bytes: int | None = None
    disk: int | None = None
    dies_at: int | None = None
    moments: Path | None = None


def _knowgate(arguments: list[str], limits: Limits) -> None:
    if limits.most_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limits.most_bytes, limits.most_bytes))
    sys.argv = ["knowgate", *arguments]
    moments = count()
    die_at(limits.dies_at, moments)
    if limits.disk is not None:
        _on_small_disk(limits.disk)
        return
    try:
        main()
    finally:
        if limits.moments is not None:
            limits.moments.write_text(str(next(moments)), "ascii")


def die_at(number: int | None, moments: Iterator[int]) -> None:
    """Kill this process at a moment: before or after `fsync` and `replace`, or in a write."""

    def passed() -> None:
        if next(moments) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            passed()
            found = work(*arguments, **options)
            passed()
            return found

        return call

    pwrite = os.pwrite

    def write_half(descriptor: int, block: Any, offset: int) -> int:
        half = pwrite(descriptor, bytes(block)[: len(block) // 2], offset)
        passed()
        return half + pwrite(descriptor, bytes(block)[half:], offset + half)

    os.fsync, os.replace = around(lambda _: None), around(os.replace)
    os.pwrite = write_half


def _on_small_disk(size: int) -> None:
    """Run the command in a copy of this folder on a small file system, and copy what is left."""
    folder = Path.cwd()
    libc = ctypes.CDLL(None, use_errno=True)
    new_namespace, private = 0x00020000, 1 << 18 | 1 << 14
    if libc.unshare(new_namespace) or libc.mount(b"none", b"/", None, private, None):
        os._exit(_NO_DISK)
    small = folder.with_name(f"{folder.name}-small")
    small.mkdir()
    if libc.mount(b"tmpfs", bytes(small), b"tmpfs", 0, f"size={size}".encode()):
        os._exit(_NO_DISK)
    shutil.copytree(folder, small, dirs_exist_ok=True)
    os.chdir(small)
    try:
        main()
    finally:
        os.chdir(folder)
        shutil.copytree(small, folder, dirs_exist_ok=True)


def attacks(folder: Path, full: bool) -> Iterator[Outcome]:
    """Run each command whole, then limit the size of its files, or kill it, at random."""
    chance = random.Random(11)
    start = folder / "start"
    start.mkdir()
    shutil.copytree(INPUTS, start / "in", ignore=shutil.ignore_patterns("__pycache__", "*.py"))
    for number, (line, made) in enumerate(_COMMANDS):
        command, whole = _Command(line, made), folder / f"whole{number}"
        shutil.copytree(start, whole)
        counted = folder / "moments"
        ended = command.run(whole, Limits(moments=counted))
        if ended.code not in (0, 3):
            raise RuntimeError(f"{line}: {ended}")
        if full or command.name in _QUICK:
            tries, most = (2 if full else 1), _largest(whole / made)
            moments = int(counted.read_text("ascii"))
            limits = [
                Limits(most_bytes=max(_ONE_LINE, chance.randrange(most))) for _ in range(tries)
            ]
            yield _interrupted(command, "files that may not grow", start, whole, limits)
            dies = chance.sample(range(moments), min(moments, 2 if full else 1))
            kills = [Limits(dies_at=one) for one in dies]
            yield _interrupted(command, "SIGKILL", start, whole, kills)
            if _can_mount():
                room, written = _on_disk(start), _on_disk(whole) - _on_disk(start)
                size = (room + chance.randrange(written + 1)) // 4096 * 4096
                yield _interrupted(command, "full disk", start, whole, [Limits(disk=size)])
        start = whole
        if not full and command.name == _QUICK[-1]:
            break
    if (start / "replies").exists():
        yield _labels(folder / "labels", start / "replies", chance, 8 if full else 2)


def _can_mount() -> bool:
    return sys.platform == "linux" and os.geteuid() == 0


def _on_disk(place: Path) -> int:
    """Bytes of whole pages that files and folders take."""
    sizes = [one.stat().st_size if one.is_file() else 4096 for one in place.rglob("*")]
    return sum(-(-size // 4096) * 4096 for size in sizes) + 65_536


def _interrupted(
    command: _Command, how: str, start: Path, whole: Path, tries: Sequence[Limits]
) -> Outcome:
    faults = []
    for number, limits in enumerate(tries):
        work = whole.with_name(f"{whole.name}-{number}")
        shutil.copytree(start, work)
        ended = command.run(work, limits)
        killed = ended.code == -signal.SIGKILL
        if not ended.orderly and not killed:
            faults.append(f"{limits}: {ended.code} {ended.err[-300:]}")
        elif not killed and list(work.rglob("*.tmp")):
            faults.append(f"{limits}: a temporary file is left")
        elif ended.code not in (0, 3) and (again := command.run(work)).code not in (0, 3):
            faults.append(f"{limits}: again: {again.err[-300:]}")
        elif name := difference(work / command.made, whole / command.made):
            faults.append(f"{limits}: {name} differs")
        shutil.rmtree(work)
        shutil.rmtree(work.with_name(f"{work.name}-small"), ignore_errors=True)
    return Outcome(f"{command.name}, {how}", len(tries), len(faults), cases=tuple(faults))


def _labels(folder: Path, run: Path, chance: random.Random, kills: int) -> Outcome:
    """Kill a person's labelling again and again: what was acknowledged is there, once."""
    shutil.copytree(run, folder)
    faults, before = [], 0
    for _ in range(kills):
        dies_at = chance.randrange(2, 30)
        with Program(_label, folder, dies_at) as process:
            process.wait()
            acknowledged = process.out.count("stored")
        path = folder / "labels" / "anna.jsonl"
        rows = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        more = len(rows) - before - acknowledged
        try:
            list(map(json.loads, rows))
            LabelSession.annotate(RepliesRun.read(folder), "anna", size=4, seed=1)
        except Exception as error:  # noqa: BLE001 - counted
            faults.append(f"{dies_at}: {type(error).__name__}: {error}")
        if more not in (0, 1) or process.code not in (0, -signal.SIGKILL):
            faults.append(f"{dies_at}: {more} more than acknowledged {process.err[-300:]}")
        before = len(rows)
    return Outcome("label, SIGKILL", kills, len(faults), cases=tuple(faults))


def _label(run: Path, dies_at: int) -> None:
    die_at(dies_at, count())
    session = LabelSession.annotate(RepliesRun.read(run), "anna", size=4, seed=1)
    for position in range(len(session)):
        for outcome in ("yes", "no", "yes"):
            session.label(position, "abstention", outcome)
            os.write(1, b"stored\n")


def _files(place: Path) -> dict[str, Path]:
    if place.is_file():
        return {place.name: place}
    return {str(path.relative_to(place)): path for path in place.rglob("*") if path.is_file()}


def _largest(place: Path) -> int:
    return max(path.stat().st_size for path in _files(place).values())


def difference(found: Path, wanted: Path) -> str | None:
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
