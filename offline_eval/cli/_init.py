"""`knowgate init` writes the file with the options of a project."""

from __future__ import annotations

import json
from pathlib import Path

from ...guard.errors import InputError
from ...guard.files import write_text
from ._console import out
from ._options import documented
from ._project_file import FILE_NAME


@documented
def init(
    questions: Path = Path("questions.jsonl"),
    chain: str | None = None,
    unanswerable: Path | None = None,
    out_path: Path = Path(FILE_NAME),
) -> None:
    """Write a commented knowgate.toml, which all commands read.

    Example: `knowgate init --questions kb.csv --chain my_app:chain`

    Args:
        questions: File of questions.
        chain: module:attribute of your chain or retriever.
        unanswerable: File of questions that your documents do not answer.
        out_path: File to write; it must not exist.
    """
    if out_path.exists():
        raise InputError(
            "exists already", where=str(out_path), hint="edit it, or name another --out"
        )
    text = Path(__file__).with_name("project_file.toml").read_text(encoding="utf-8")
    examples = {"chain": "my_app:chain", "unanswerable": "unanswerable.jsonl"}
    given = {"chain": chain, "unanswerable": unanswerable}
    for key, example in examples.items():
        if given[key] is not None:
            text = text.replace(f'# {key} = "{example}"', f"{key} = {_quoted(given[key])}")
    write_text(out_path, text.replace('"questions.jsonl"', _quoted(questions)))
    out.print(f"project file → {out_path}\nnext: knowgate check")


def _quoted(value: object) -> str:
    # A JSON string is one of TOML, too.
    return json.dumps(str(value), ensure_ascii=False)
