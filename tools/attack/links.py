"""Links and pipes in place of files: nothing behind a link is changed or read, nothing waits."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from .command_line import Ended, knowgate
from .outcome import Outcome, tally
from .run_files import DamagedRuns, RunKind

# A report takes some seconds, more where others compute too.
_SECONDS = 60
_SECRET = "The vault opens with 4711."
Case = tuple[RunKind, str, str, Callable[[Path, Path], None]]


class _Waits(Exception):  # noqa: N818 - no error of its own
    """A command waited for ever."""


def _linked(path: Path, elsewhere: Path) -> None:
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def _dangling(path: Path, elsewhere: Path) -> None:
    path.unlink()
    path.symlink_to(elsewhere)


def _piped(path: Path, elsewhere: Path) -> None:
    del elsewhere
    path.unlink()
    os.mkfifo(path)


WAYS = {"a link": _linked, "a link to nothing": _dangling, "a pipe": _piped}


@contextlib.contextmanager
def _no_waiting() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise _Waits

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _ended(*arguments: str | Path) -> Ended | None:
    """How a command ended; None where it waited for ever."""
    try:
        with _no_waiting():
            return knowgate(*arguments)
    except _Waits:
        return None


class LinkedRuns(DamagedRuns):
    """Run folders whose files are links or pipes."""

    def linked_cases(self, kind: RunKind) -> Iterator[tuple[str, Case]]:
        """Each file of a run in each way, with each command or with one of them."""
        original = self.folder / kind.name
        for number, path in enumerate(sorted(original.rglob("*.json*"))):
            commands = (kind.make, *kind.read)
            for place, (label, way) in enumerate(WAYS.items()):
                chosen = commands if self._full else (commands[(number + place) % len(commands)],)
                for command in chosen:
                    name = str(path.relative_to(original))
                    words = " ".join(command.split()[:2])
                    yield f"{kind.name}/{name}: {label} ({words})", (kind, name, command, way)

    def passes(self, case: Case) -> bool:
        """Whether a command waited, used what lies outside, or ended in disorder."""
        kind, name, command, way = case
        copy, elsewhere = self.folder / "linked" / kind.name, self.folder / "elsewhere"
        shutil.rmtree(copy.parent, ignore_errors=True)
        shutil.copytree(self.folder / kind.name, copy)
        for beside in self.folder.glob("*.json*"):
            shutil.copy(beside, copy.parent)
        rows = copy / "rows.jsonl"
        if command == kind.make and rows.exists():
            # Unfinished, so that it is written to.
            rows.write_bytes(b"".join(rows.read_bytes().splitlines(keepends=True)[:1]))
        elsewhere.unlink(missing_ok=True)
        way(copy / name, elsewhere)
        before = elsewhere.read_bytes() if elsewhere.exists() else None
        with contextlib.chdir(copy.parent):
            ended = _ended(*self._line(command, copy))
        after = elsewhere.read_bytes() if elsewhere.exists() else None
        if ended is None or after != before or not ended.orderly:
            return True
        # A file that a command neither reads nor writes may be anything.
        return ended.code == 0 and way is _linked and _reads(self, case, copy)


def _reads(runs: LinkedRuns, case: Case, copy: Path) -> bool:
    """Whether a command reads a file: it ends otherwise where the file is broken."""
    _, name, command, _ = case
    (copy / name).unlink(missing_ok=True)
    (copy / name).write_bytes(b"\0\n")
    with contextlib.chdir(copy.parent):
        return knowgate(*runs._line(command, copy)).code != 0


def documents(folder: Path) -> Iterator[tuple[str, str]]:
    """Folders of documents in which one leads out, by the kind of it."""
    private = folder / "private"
    (private / "more").mkdir(parents=True)
    for place in (private / "secret.md", private / "more" / "secret.md"):
        place.write_text(f"# Vault\n\n{_SECRET}\n", encoding="utf-8")
    leads: dict[str, Callable[[Path], None]] = {
        "a link to a file": lambda path: path.symlink_to(private / "secret.md"),
        "a relative link": lambda path: path.symlink_to("../../private/secret.md"),
        "a link to a link": lambda path: _twice(path, private / "secret.md"),
        "a link to a folder": lambda path: path.symlink_to(private, target_is_directory=True),
        "a pipe": os.mkfifo,
    }
    for number, (name, lead) in enumerate(leads.items()):
        documents = folder / f"documents{number}" / "docs"
        documents.mkdir(parents=True)
        (documents / "open.md").write_text(
            "# Ferry\n\nThe ferry leaves at eight in the morning.\n", encoding="utf-8"
        )
        lead(documents / "lead.md")
        yield name, str(documents)


def _twice(path: Path, target: Path) -> None:
    middle = path.parent.parent / "middle.md"
    middle.symlink_to(target)
    path.symlink_to(middle)


def tells(documents: str) -> bool:
    """Whether the knowledge base of a folder holds what lies outside, or is not built."""
    out = Path(f"{documents}-kb")
    ended = _ended("kb", "build", documents, "--out", out)
    if ended is None or not ended.orderly:
        return True
    return any(_SECRET[:9] in path.read_text("utf-8") for path in out.rglob("*.jsonl"))


def attacks(folder: Path, full: bool) -> Iterator[Outcome]:
    """Put links and pipes in the place of files of runs, of documents and of what is written."""
    (folder / "runs").mkdir()
    runs = LinkedRuns(folder / "runs", full=full, only="" if full else "signals")
    for kind in runs.kinds:
        yield tally(f"links and pipes in a run: {kind.name}", runs.linked_cases(kind), runs.passes)
    yield tally("documents outside the folder in a knowledge base", documents(folder), tells)
