"""`knowgate view` and `knowgate play`: runs, and a guarded chain, in the browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...guard import Guard
from ...guard.errors import require_extra
from ...guard.files import file_sha256
from ._console import err, out
from ._options import Port, documented

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ...adapters.langchain import GuardedRAG

_SAMPLE = "sample help desk"
_EXAMPLES = (
    "What is the charge for getting rid of a wasps' nest by the door?",
    "How often is cardboard fetched from a single-family house?",
    "How do I register a drone with the city?",
)


@documented
def view(
    runs: Annotated[list[Path], typer.Argument()],
    policy: list[Path] | None = None,
    port: Port = 0,
    no_browser: bool = False,
) -> None:
    """Look through runs in the browser: filter, search, read single cases.

    Runs of every suite are read, finished or not, and not changed. The page is served on this
    machine only, under an address with a token. Reading 100,000 rows takes some seconds.

    Example: `knowgate view runs/`

    Args:
        runs: Runs, or folders with runs below them.
        policy: Show the thresholds of this policy's decisions; repeatable.
    """
    require_extra("serve")
    from ...guard.policy import Policy
    from ..web import index_runs, view_app

    policies = {file_sha256(path): Policy.load(path) for path in policy or ()}
    with err.status("Reading the runs …"):
        found, skipped = index_runs(runs, policies)
    for line in skipped:
        err.print(f"left out: {line}")
    rows, number = sum(run.rows for run in found.values()), len(found)
    what = f"{rows:,} rows of {number} run{'' if number == 1 else 's'}"
    show(view_app(found, skipped), what, port=port, no_browser=no_browser)


@documented
def play(
    policy: Path | None = None,
    chain: str | None = None,
    save: Path = Path("questions.jsonl"),
    port: Port = 0,
    no_browser: bool = False,
) -> None:
    """Try a guarded chain in the browser: what it retrieves, measures, decides and replies.

    Passages can be struck out to see how the decision changes, and a case can be saved to a
    question file for the next calibration. Without a chain, the sample help desk is asked, which
    quotes its articles. The page is served on this machine only, under an address with a token.

    Example: `knowgate play --policy policy.json --chain app:chain`

    Args:
        policy: The policy that decides; by default the chain's, or an uncalibrated.
        chain: module:attribute of a GuardedRAG, a retriever, or a function from a question to
            documents.  [default: the sample help desk]
        save: Question file (.jsonl) that cases are saved to.
    """
    require_extra("serve")
    from ..web import Playground, play_app

    guard = None if policy is None else Guard.load(policy, metrics=False)
    examples = _EXAMPLES if chain is None else ()
    ground = Playground(_chain(chain, guard), chain or _SAMPLE, save, examples=examples)
    show(play_app(ground), chain or _SAMPLE, port=port, no_browser=no_browser)


def _chain(name: str | None, guard: Guard | None) -> GuardedRAG:
    """Load a chain of the user's, or the demo's; one that only retrieves gets a quoting reader."""
    from ...adapters.langchain import GuardedRAG
    from ..data.questions import QuestionRecord
    from ..systems.served import ServedChain
    from ..testbed import sample_knowledge_base_path
    from ._demo import extractive_reader, help_desk

    if name is None:
        records = QuestionRecord.read(sample_knowledge_base_path())
        return help_desk(guard or Guard.default(metrics=False), records)
    served = ServedChain.load(name)
    if served.guard is not None:
        own: GuardedRAG = served.chain
        return own if guard is None else own.with_parts(guard=guard)
    return GuardedRAG(
        guard=guard or Guard.default(metrics=False),
        retriever=served.retriever,
        with_context=extractive_reader(),
    )


def show(app: FastAPI, what: str, note: str = "", *, port: int, no_browser: bool) -> None:
    """Print the address of a page, open it where there is a browser, and serve until Ctrl-C."""
    from ..web import PageServer

    with PageServer(app, port) as server:
        out.print(f"{what} — {server.url}")
        out.print(f"stop with Ctrl-C{note}")
        sys.stdout.flush()
        # Without a display Python would start a text browser over this very output.
        has_display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        if not no_browser and (has_display or not sys.platform.startswith("linux")):
            webbrowser.open(server.url)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
