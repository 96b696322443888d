"""The command line: one Typer app, one file per command."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from ..._version import __version__
from ...guard.errors import KnowgateError
from ._command_group import CommandGroup
from ._console import err, out

# Typer carries its own copy of click or uses the installed one: this is either's.
_UsageError: Any = typer.BadParameter.__base__

app = typer.Typer(
    cls=CommandGroup,
    name="knowgate",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "A guard for RAG: follow the context, answer from memory, or abstain.\n\n"
        "Options of a project are read from `knowgate.toml`; `knowgate init` writes one.\n\n"
        "Exit codes: 0 done · 1 a gate or rows of a run failed · 2 bad input (one line says "
        "what, where and how to fix it) · 3 nothing could be certified, or not well enough."
    ),
)
CommandGroup.app = app


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
    pass  # `CommandGroup` reads the file, since it knows the command


@cache
def _command_line() -> Any:
    return typer.main.get_command(app)


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


def _fail_usage(error: Any) -> None:
    message: str = error.format_message()
    if error.ctx is None or not message.strip() or "\n" in message:
        # A group called without a command, which shows its help.
        typer.echo(message, err=True, nl=bool(message))
        sys.exit(2)
    _fail(f"{message.rstrip('.')} — see `{error.ctx.command_path} --help`")


def _fail(message: str) -> None:
    err.print("error: " + " ".join(message.split()), style="red", markup=False)
    sys.exit(2)
