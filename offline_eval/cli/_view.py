"""`knowgate view`: look through runs in the browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...guard.errors import require_extra
from ...guard.files import file_sha256
from ._app import app
from ._console import err, out

if TYPE_CHECKING:
    from ..web import PageServer

_RUNS = typer.Argument(help="Runs, or folders with runs below them.")
_POLICY = typer.Option(help="Show the thresholds of this policy's decisions; repeatable.")
PORT = typer.Option(min=0, max=65535, help="Of the page on 127.0.0.1; 0: a free one.")
NO_BROWSER = typer.Option("--no-browser", help="Only print the page's address.")


@app.command()
def view(
    runs: Annotated[list[Path], _RUNS],
    policy: Annotated[list[Path] | None, _POLICY] = None,
    port: Annotated[int, PORT] = 0,
    no_browser: Annotated[bool, NO_BROWSER] = False,
) -> None:
    """Look through runs in the browser: filter, search, read single cases, compare two runs.

    Runs of every suite are read, finished or not, and not changed. The page is served on this
    machine only, under an address with a token. Reading 100,000 rows takes some seconds.

    Example: `knowgate view runs/`
    """
    require_extra("serve")
    from ...guard.policy import Policy
    from ..web import PageServer, open_index, view_app

    policies = {file_sha256(path): Policy.load(path) for path in policy or ()}
    with ExitStack() as stack:
        with err.status("Reading the runs …"):
            index = stack.enter_context(open_index(runs, policies))
        for line in index.skipped:
            err.print(f"left out: {line}", markup=False)
        server = stack.enter_context(PageServer(view_app(index), port))
        rows, number = sum(run.rows for run in index.runs.values()), len(index.runs)
        what = f"{rows:,} rows of {number} run{'' if number == 1 else 's'}"
        show(server, what, no_browser=no_browser)


def show(server: PageServer, what: str, note: str = "", *, no_browser: bool) -> None:
    """Print the address of a page, open it where there is a browser, and serve until Ctrl-C."""
    out.print(f"{what} — {server.url}", markup=False)
    out.print(f"stop with Ctrl-C{note}")
    sys.stdout.flush()
    if not no_browser and _has_browser():
        webbrowser.open(server.url)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        return


def _has_browser() -> bool:
    # Without a display Python would start a text browser over this very output.
    linux = sys.platform.startswith("linux")
    return not linux or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
