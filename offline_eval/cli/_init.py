"""`knowgate init`: a commented project file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ...guard.errors import InputError
from ...guard.files import write_text
from ._app import app
from ._console import out
from ._project_file import FILE_NAME

_TEMPLATE = """\
# Read by every knowgate command in this folder and those below it.
# Options on the command line win. Paths are relative to this file.

# What your users ask, with answers: .jsonl, .json or .csv.
questions = {questions}

# What they ask and your documents do not answer: the promise is then about these.
{unanswerable}

# Your chain or retriever, module:attribute: measured as it is served. Without it the passages
# of the questions are indexed; with documents = "docs" a folder of documents is.
{chain}

# What judges whether passages suffice: `knowgate doctor --scorers` lists them.
{scorer}

# At most this share of questions without an answer in the knowledge base may pass (α), and the
# probability that this fails by bad luck in the draw of the questions (δ).
risk = {risk}
delta = 0.1

# Judge by this policy as it stands. Without it `knowgate check` calibrates a new one.
# policy = "policy.json"

# `knowgate check` ends with exit code 1 where one of these holds. Any number of report.json.
gates = [
  "abstention_rate.low<85%",
  "false_abstention_rate>50%",
]

# Run, policy and report go there.
out = "knowgate-check"

# Any option of one command, as in `knowgate COMMAND --help`.
[measure]
# top-k = 5

[calibrate]
# max-false-abstention = 0.9
# cost-leak = 5  # in place of risk: the threshold that costs least, without a guarantee

[report]
# format = "html,md,json,junit"
"""


@app.command()
def init(
    questions: Annotated[Path, typer.Option(help="File of questions.")] = Path("questions.jsonl"),
    chain: Annotated[
        str | None, typer.Option(help="module:attribute of your chain or retriever.")
    ] = None,
    scorer: Annotated[str | None, typer.Option(help="Scorer, as for `knowgate measure`.")] = None,
    unanswerable: Annotated[
        Path | None, typer.Option(help="File of questions that your documents do not answer.")
    ] = None,
    risk: Annotated[float, typer.Option(help="Bound α on the leak.")] = 0.1,
    file: Annotated[Path, typer.Option("--out", help="File to write; it must not exist.")] = Path(
        FILE_NAME
    ),
) -> None:
    """Write a commented knowgate.toml, which all commands read.

    Example: `knowgate init --questions kb.csv --chain my_app:chain`
    """
    if file.exists():
        raise InputError("exists already", where=str(file), hint="edit it, or name another --out")
    if not 0 < risk < 1:
        raise InputError(
            f"must be between 0 and 1, not {risk:g}", where="--risk", hint="name one such as 0.1"
        )
    text = _TEMPLATE.format(
        questions=_text(str(questions)),
        chain=_line("chain", chain, "my_app:chain"),
        scorer=_line("scorer", scorer, "sufficiency"),
        unanswerable=_line(
            "unanswerable",
            None if unanswerable is None else str(unanswerable),
            "unanswerable.jsonl",
        ),
        risk=repr(risk),
    )
    write_text(file, text)
    out.print(f"project file → {file}\nnext: knowgate check", markup=False)


def _text(value: str) -> str:
    # A JSON string is one of TOML, too.
    return json.dumps(value, ensure_ascii=False)


def _line(key: str, value: str | None, example: str) -> str:
    return f"# {key} = {_text(example)}" if value is None else f"{key} = {_text(value)}"
