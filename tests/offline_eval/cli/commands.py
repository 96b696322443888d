"""Running the command line inside the test process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from knowgate.offline_eval.cli import app
from tests.support.bound_rows import bind


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command left: exit code and output."""

    code: int
    out: str
    err: str


Knowgate = Callable[..., Outcome]


def write_lines(path: Path, values: Sequence[Mapping[str, Any]]) -> Path:
    """Write JSON lines, bound to their run where they are rows of one."""
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    if (path.parent / "manifest.json").exists():
        bind(path.parent, path.stem)
    return path


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read JSON lines strictly: NaN and infinity are not JSON."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    text = path.read_bytes().decode("utf-8")
    assert not text or text.endswith("\n")
    return [json.loads(line, parse_constant=refuse) for line in text.split("\n")[:-1]]


def refused(outcome: Outcome, *words: str) -> None:
    """Assert exit code 2, and one line on standard error with all of `words` and a hint.

    Before it may stand which project file options are from.
    """
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    said = outcome.err.removeprefix("options from knowgate.toml\n")
    assert said.count("\n") == 1, outcome.err
    assert said.startswith("error: ")
    assert " — " in said
    for word in words:
        assert word in said


def every_command(command: Any = None, context: Any = None) -> Iterator[tuple[list[str], Any]]:
    """Yield each command that can be called, with the words that call it."""
    command = command or typer.main.get_command(app)
    context = context or typer.Context(command, info_name="knowgate", **command.context_settings)
    if not hasattr(command, "list_commands"):
        yield context.command_path.split()[1:], command
        return
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        yield from every_command(below, typer.Context(below, parent=context, info_name=name))
