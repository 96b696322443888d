"""The folder of a built knowledge base: its manifest and tables.

`documents.jsonl`, `sentences.jsonl`, `facts.jsonl`, `questions.jsonl`, `failures.jsonl`,
`manifest.json`, and below `calls` the replies of models.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from ...run import Manifest, TableSpec
from ._artefacts import (
    CallRow,
    DocumentRow,
    FactRow,
    FailureRow,
    QuestionRow,
    SentenceRow,
    Stage,
)

DOCUMENTS = TableSpec("documents", DocumentRow, "document", whole=True)
SENTENCES = TableSpec("sentences", SentenceRow, "sentence_id", whole=True)
FACTS = TableSpec("facts", FactRow, "fact_id", whole=True)
QUESTIONS = TableSpec("questions", QuestionRow, "id", whole=True)
FAILURES = TableSpec("failures", FailureRow, "document", whole=True)

# A later build into the same folder may read other documents and ask otherwise.
COMPARED = ("holds",)


class BuildManifest(Manifest):
    """`manifest.json` of a built knowledge base.

    Attributes:
        holds: tells it from a run.
        complete: whether the build was finished.
    """

    kind: ClassVar[str] = "knowledge base"
    # The manifest changes while it is built, and single calls may be taken out.
    binds_rows: ClassVar[bool] = False

    holds: str = ""
    complete: bool = False


def build_manifest(**fields: object) -> BuildManifest:
    """Make the manifest of a build."""
    return BuildManifest.new(holds="built_knowledge_base", **fields)


def calls_of(stage: Stage) -> TableSpec[CallRow]:
    """Return the table of a stage's calls."""
    hint = "remove the line; its call is then made again"
    return TableSpec(f"calls/{stage.value}", CallRow, "key", hint=hint)


class AnsweredCalls:
    """Finished calls by what they asked; of several rounds the last counts.

    Args:
        rows: in the order in which they finished.
    """

    def __init__(self, rows: Iterable[CallRow]) -> None:
        self.all = list(rows)
        self.by_key: dict[str, CallRow] = {}
        self._rounds: dict[str, int] = {}
        for row in self.all:
            base = row.key.partition("~")[0]
            self._rounds[base] = self._rounds.get(base, 0) + 1
            self.by_key[base] = row

    def key_to_ask(self, key: str, *, again_if_failed: bool) -> str | None:
        """What to store a request under; None if it is answered and not asked again."""
        row = self.by_key.get(key)
        if row is None:
            return key
        if again_if_failed and row.error is not None:
            return f"{key}~{self._rounds[key]}"
        return None
