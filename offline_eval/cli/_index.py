"""`knowgate index`: passages encoded ahead of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from ...guard.errors import InputError
from ...guard.files import read_jsonl
from ...guard.signals.relevance import index_passages, load_scorer
from ...guard.signals.relevance.registry import DEFAULT_SCORER
from ..data.facts import load_chunks
from ._console import print_figures, progress_bar, tell
from ._options import ChunkOptions, prints_figures


@prints_figures
def index(
    passages: Annotated[list[Path], typer.Argument(metavar="KB")],
    out_dir: Path,
    *,
    scorer: str = DEFAULT_SCORER,
    chunks: ChunkOptions,
) -> None:
    """Encode passages ahead of time, so that a guard does not encode them for a request.

    `Guard.load("policy.json", passages=DIR)` and `--scorer NAME,passages=DIR` use the folder.
    Passages are found by their text: give them as your retriever returns them. Others are
    encoded when they come. Start the command again to resume, and to add passages. To drop
    passages that are gone, write a new folder.

    Example: `knowgate index passages.jsonl --out passages`

    Args:
        passages: JSON lines with "text", one passage a line; or documents and folders of them,
            cut into chunks.
        out_dir: Folder to write; what is in it is not encoded again.
        scorer: Scorer by name, or a tuned or exported folder.
    """
    if scorer.startswith("judge:"):
        # Not loaded: that may take minutes, or a key.
        raise InputError(
            "a language model reads question and passages together: nothing to encode ahead",
            where=f"--scorer {scorer}",
            hint="use sufficiency, late_interaction or a folder of `knowgate tune relevance`",
        )
    given = [text for path in passages for text in _passages(path, chunks.size, chunks.overlap)]
    if not given:
        raise InputError("no passages", where=str(passages[0]), hint="name other files")
    loaded = load_scorer(scorer)
    with progress_bar("encoding") as advance:
        report = index_passages(
            given,
            out_dir,
            loaded,
            progress=lambda read: advance(read, len(given)),
        )
    print_figures({**asdict(report), "folder": out_dir})
    tell("indexed", report, out_dir)


def _passages(path: Path, chunk_size: int, chunk_overlap: int) -> Iterator[str]:
    # Lines whose first one is no passage are records of another kind.
    first = islice(read_jsonl(path), 1) if path.suffix in (".jsonl", ".ndjson") else ()
    if all(_text(value) is None for _, value in first):
        for chunk in load_chunks(path, chunk_size, chunk_overlap):
            yield chunk.page_content
        return
    for number, value in read_jsonl(path):
        text = _text(value)
        if text is None:
            raise InputError(
                "has no passage",
                where=f"{path}:{number}",
                hint='each line needs "text" or "page_content"',
            )
        yield text


def _text(value: dict[str, Any]) -> str | None:
    found = value.get("text", value.get("page_content"))
    return found if isinstance(found, str) else None
