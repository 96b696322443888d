"""`knowgate abstained`: which replies of a file give no answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ...guard.abstention import Citation, load_rule
from ...guard.errors import InputError
from ...guard.files import atomic_writer, read_jsonl
from ._app import app
from ._console import (
    checked_id,
    json_line,
    out,
    print_figures,
    prints_figures,
    progress_bar,
)

_HINT = 'each line needs "response" (text); "question" (text) and "citation" may be there'


@app.command()
@prints_figures
def abstained(
    input_path: Annotated[
        Path, typer.Option("--input", help='JSON lines: {"question", "response"}.')
    ],
    output: Annotated[Path, typer.Option(help='JSON lines: {"abstained", "probability"}.')],
    rule: Annotated[
        str,
        typer.Option(help="default, or a published rule for reproduction: uaqfact, uniknow."),
    ] = "default",
) -> None:
    """Tell replies that abstain from replies that answer, without a language model.

    Per input line one output line, in order: `abstained` (true or false) and
    `probability` (calibrated; 0 or 1 with a published rule). English and Chinese.
    An optional `citation` says what the reply cites: null, "", [], a negative number
    or "no citation" stand for nothing. An empty reply abstains. An `id` is passed on.

    Example: `knowgate abstained --input replies.jsonl --output flags.jsonl`
    """
    lines = list(read_jsonl(input_path))
    for number, value in lines:
        _check(value, f"{input_path}:{number}")
    loaded = load_rule(rule)
    found = 0
    with atomic_writer(output) as stream, progress_bar("reading replies") as advance:
        for done, (_, value) in enumerate(lines, start=1):
            verdict = loaded.detect(value["response"], **_known(value))
            result = {"abstained": verdict.abstained, "probability": verdict.probability}
            found += verdict.abstained
            stream.write(json_line({"id": value["id"], **result} if "id" in value else result))
            advance(done, len(lines))
    print_figures({"replies": len(lines), "abstained": found, "output": output})
    out.print(f"{len(lines)} replies read, {found} abstained → {output}", markup=False)


def _known(value: dict[str, Any]) -> dict[str, Any]:
    """What a line says beside the reply."""
    return {
        "question": value.get("question"),
        "citation": value.get("citation", Citation.UNKNOWN),
    }


def _check(value: dict[str, Any], where: str) -> None:
    checked_id(value, where)
    if "response" not in value:
        raise InputError("field 'response' is missing", where=where, hint=_HINT)
    if not isinstance(value["response"], str):
        raise InputError("field 'response' must be text", where=where, hint=_HINT)
    question = value.get("question")
    if question is not None and not isinstance(question, str):
        raise InputError("field 'question' must be text", where=where, hint=_HINT)
