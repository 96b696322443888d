"""The command line: one file per command, imported when the command is asked for."""

from __future__ import annotations

import ast
import contextlib
import io
import os
import signal
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ..._version import __version__
from ...guard.errors import KnowgateError
from ._console import HELP_MODE, err, out
from ._project_file import ProjectFile

# A broken file must not keep these from working.
_NO_PROJECT = ("doctor", "init")
_NAMED = "knowgate.project_file"
# Of a context: the commands that are not imported, since their summaries will do.
_SUMMARIZED = "knowgate.summarized"
# Typer carries its own copy of click or uses the installed one: this is either's.
_UsageError: Any = typer.BadParameter.__base__


# Group of the help → command → module.
_MODULES: Mapping[str, Mapping[str, str]] = {
    "serve": {
        "serve": "serve", "play": "view", "dashboards": "dashboards",
        "shadow-report": "report",
    },
    "calibrate": {
        "init": "check", "check": "check", "measure": "suite_command",
        "calibrate": "calibrate", "kb": "kb", "tune": "tune",
    },
    "evaluate": {
        "eval": "suite_command", "judge": "judge", "label": "label", "verify": "verify",
        "report": "report", "view": "view", "import": "import", "kg": "kg",
    },
    "watch": {"drift": "drift"},
    "tools": {
        "apply": "apply", "index": "index", "models": "doctor", "doctor": "doctor", "demo": "demo",
    },
}  # fmt: skip
# A function cannot be called `import`, and one called `eval` would hide Python's.
_FUNCTIONS = {"eval": "eval_", "import": "import_"}
# The commands and groups of the command line, in the order of the help: of each the panel, and
# where it is: the function of that name, or the group beside it, of a module.
COMMANDS: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        name: (panel, f"_{module}", _FUNCTIONS.get(name, name.replace("-", "_")))
        for panel, modules in _MODULES.items()
        for name, module in modules.items()
    }
)

_FIRST = (
    "demo", "init", "check", "measure", "calibrate", "report", "serve", "play", "drift", "doctor",
)  # fmt: skip


class CommandGroup(TyperGroup):
    """The root of the command line."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, in the order of the help, or of those to summarize."""
        return list(ctx.meta.get(_SUMMARIZED, COMMANDS))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command after importing it, or its summary; None where there is none."""
        if cmd_name not in COMMANDS:
            return None
        if _SUMMARIZED in ctx.meta:
            panel, text = COMMANDS[cmd_name][0], summary_of(cmd_name)
            return TyperCommand(cmd_name, help=text, rich_help_panel=panel)
        return _loaded(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command, and give it what `knowgate.toml` says."""
        name, command, rest = super().resolve_command(ctx, args)
        if not ctx.resilient_parsing and name not in _NO_PROJECT:
            ctx.default_map = _defaults(ctx, command, [str(name)], rest)
        return name, command, rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help without importing a command: all of them if `--help` asks for it.

        Called without a command, it shows those that people start with.
        """
        asked = {"-h", "--help"} & set(sys.argv[1:])
        ctx.meta[_SUMMARIZED] = COMMANDS if asked else _FIRST
        super().format_help(ctx, formatter)
        if not asked:
            out.print("All commands: knowgate --help")

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Complete names of commands, likewise."""
        ctx.meta[_SUMMARIZED] = COMMANDS
        return super().shell_complete(ctx, incomplete)


@cache
def summary_of(name: str) -> str:
    """Return the first paragraph of a command's docstring, which is read and not imported."""
    _, module, function_name = COMMANDS[name]
    source = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    functions = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    [function] = (node for node in functions if node.name == function_name)
    return (ast.get_docstring(function) or "").partition("\n\n")[0]


def command_of(function: Any, name: str) -> Any:
    """Make the command of a function."""
    holder = typer.Typer(rich_markup_mode=HELP_MODE, add_completion=False)
    holder.command(name)(function)
    return typer.main.get_command(holder)


@cache
def _loaded(name: str) -> Any:
    panel, module_name, attribute = COMMANDS[name]
    module = import_module(f".{module_name}", __package__)
    group = getattr(module, f"{attribute.rstrip('_')}_app", None)
    if group is None:
        command = command_of(getattr(module, attribute), name)
    else:
        command = typer.main.get_group(group)
    command.name, command.rich_help_panel = name, panel
    return command


def _defaults(ctx: Any, command: Any, names: list[str], rest: list[str]) -> dict[str, Any]:
    """Return the defaults of a command from `knowgate.toml`, below its names."""
    if {"-h", "--help"} & set(rest):
        return {}
    file = ProjectFile.find(ctx.params.get("config"), COMMANDS)
    if file is None:
        return {}
    while hasattr(command, "get_command") and rest:
        file.require_commands(names, command.list_commands(ctx))
        command, name, rest = command.get_command(ctx, rest[0]), rest[0], rest[1:]
        if command is None:
            return {}
        names = [*names, name]
    found: Any = file.defaults(names, command, rest)
    # `check` runs other commands below the same context.
    if found and ctx.meta.setdefault(_NAMED, file.path) is not None:
        err.print(f"options from {file.path}")
        ctx.meta[_NAMED] = None
    for name in reversed(names):
        found = {name: found}
    return dict(found)


app = typer.Typer(
    cls=CommandGroup,
    name="knowgate",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=HELP_MODE,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(value: bool) -> None:
    if value:
        out.print(f"knowgate {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Project file with options of the commands; those on the command line win.  "
            "[default: knowgate.toml in the working directory or a parent]"
        ),
    ] = None,
) -> None:
    """A guard for RAG: follow the context, answer from memory, or abstain.

    Options of a project are read from `knowgate.toml`; `knowgate init` writes one.

    Exit codes: 0 done · 1 a gate or rows of a run failed · 2 bad input (one line says
    what, where and how to fix it) · 3 nothing could be certified, or not well enough.
    """
    # `CommandGroup` reads the file, since it knows the command.


def main() -> None:
    """Run the command line; every expected failure is one line and exit code 2."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # Small models on busy cores: threads that spin while they wait cost up to tenfold.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show "→" or a file's odd name must not end the command.
            stream.reconfigure(errors="replace")
    ended: list[int] = []

    def end(number: int, _frame: object) -> None:
        # As an exception, so that what is half-done is cleared away. As that of Ctrl-C, because
        # a guard takes SystemExit for an error of the object that it is reading.
        ended.append(128 + number)
        raise KeyboardInterrupt

    with contextlib.suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, end)
        # The terminal was closed. `nohup` has it ignored.
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, end)
    try:
        code = _command_line()(prog_name="knowgate", standalone_mode=False) or 0
        sys.exit(ended[0] if ended else code)
    except KnowgateError as error:
        _fail(str(error))
    except _UsageError as error:
        _fail_usage(error)
    except typer.Abort:
        err.print("interrupted")
        sys.exit(130)
    except MemoryError:
        _fail("out of memory — use a smaller input")
    except BrokenPipeError:
        # The reader of our output went away, e.g. `| head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        # Libraries raise it with a text alone, often of many lines.
        what = error.strerror or str(error).partition("\n")[0] or type(error).__name__
        _fail(f"{error.filename or 'system'}: {what} — fix that and start again")
    except KeyboardInterrupt:
        sys.exit(ended[0] if ended else 130)


@cache
def _command_line() -> Any:
    return typer.main.get_command(app)


def _fail_usage(error: Any) -> None:
    message: str = error.format_message()
    if error.ctx is None or not message.strip() or "\n" in message:
        # A group called without a command, which shows its help.
        typer.echo(message, err=True, nl=bool(message))
        sys.exit(2)
    _fail(f"{message.rstrip('.')} — see `{error.ctx.command_path} --help`")


def _fail(message: str) -> None:
    # On one line; blanks within a path stay.
    err.print("error: " + " ".join(map(str.strip, message.splitlines())), style="red")
    sys.exit(2)
