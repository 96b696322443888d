"""`knowgate play`: try a guarded chain in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...guard import Guard
from ...guard.errors import require_extra
from ._app import app
from ._view import NO_BROWSER, PORT, show

if TYPE_CHECKING:
    from ...adapters.langchain import GuardedRAG
    from ...guard.engine import BiEncoderScorer

_SAMPLE = "sample help desk"
_EXAMPLES = (
    "What is the charge for getting rid of a wasps' nest by the door?",
    "How often is cardboard fetched from a single-family house?",
    "How do I register a drone with the city?",
)
_POLICY = typer.Option(help="The policy that decides; by default the chain's, or an uncalibrated.")
_CHAIN = typer.Option(
    help="module:attribute of a GuardedRAG, a retriever, or a function from a question to "
    "documents.  [default: the sample help desk]"
)
_SAVE = typer.Option(help="Question file (.jsonl) that cases are saved to.")


@app.command()
def play(
    policy: Annotated[Path | None, _POLICY] = None,
    chain: Annotated[str | None, _CHAIN] = None,
    save: Annotated[Path, _SAVE] = Path("questions.jsonl"),
    port: Annotated[int, PORT] = 0,
    no_browser: Annotated[bool, NO_BROWSER] = False,
) -> None:
    """Try a guarded chain in the browser: what it retrieves, measures, decides and replies.

    Passages can be struck out to see how the decision changes, and a case can be saved to a
    question file for the next calibration. Without a chain, the sample help desk is asked, which
    quotes its articles. The page is served on this machine only, under an address with a token.

    Example: `knowgate play --policy policy.json --chain app:chain`
    """
    require_extra("serve")
    from ..web import PageServer, Playground, play_app

    guard = None if policy is None else Guard.load(policy, metrics=False)
    if chain is None:
        ground = Playground(_sample(guard), _SAMPLE, save, examples=_EXAMPLES)
    else:
        ground = Playground(_own(chain, guard), chain, save)
    with PageServer(play_app(ground), port) as server:
        show(server, chain or _SAMPLE, no_browser=no_browser)


def _sample(guard: Guard | None) -> GuardedRAG:
    """Return the help desk of the demo."""
    from ..data import QuestionRecord
    from ..testbed import sample_knowledge_base_path
    from ._city_demo import article_store, help_desk

    encoder = _encoder()
    store = article_store(encoder, QuestionRecord.read(sample_knowledge_base_path()))
    return help_desk(guard or Guard.default(metrics=False), encoder, store)


def _own(name: str, guard: Guard | None) -> GuardedRAG:
    """Load a chain of the user's; one that only retrieves gets a reader that quotes."""
    from ...adapters.langchain import GuardedRAG
    from ..systems import ServedChain, load_object
    from ._city_demo import extractive_reader

    served = ServedChain.load(name)
    if served.guard is not None:
        found: Any = load_object(f"python:{name.removeprefix('python:')}")
        chain: GuardedRAG = found
        return chain if guard is None else chain.with_parts(guard=guard)
    return GuardedRAG(
        guard=guard or Guard.default(metrics=False),
        retriever=served.retriever,
        with_context=extractive_reader(_encoder()),
    )


def _encoder() -> BiEncoderScorer:
    from ...guard.engine import BiEncoderScorer

    return BiEncoderScorer()
