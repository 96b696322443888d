"""The folder of a built knowledge base: its manifest, its tables and their rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ....guard.errors import InputError
from ...run import Stored
from ...run.manifest import Manifest
from ...run.table import TableSpec
from ._blocks import TextKind

Name = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0)]
# Of what kind something is wrong, in one word, and a clause on it.
Fault = tuple[str, str]


# Where in the build something failed.
Stage = Literal["documents", "facts", "questions"]


class DocumentRow(Stored):
    """A line of `documents.jsonl`.

    Attributes:
        document: path below the folder that was named, or the file's name; unique.
        sha256: of its bytes; empty where they could not be read.
        kind: `text`, `markdown`, `html`, `pdf`, `table` or `records`; empty where unread.
        sentences: found in it.
        pairs: of question and answer that stand in it as such.
        failure: why nothing came of it, None where something did.
        detail: more about that; never the document's text.
    """

    document: Name
    sha256: str = ""
    kind: str = ""
    sentences: Count = 0
    pairs: Count = 0
    failure: str | None = None
    detail: str = ""


class SentenceRow(Stored):
    """A line of `sentences.jsonl`.

    Attributes:
        sentence_id: `<document>#<index>`.
        index: within its document, from 0; what facts cite.
        kind: what it is.
        topic: the heading that it stands under, where there is one.
        boilerplate: repeated on many documents, a page number, a menu: nothing is asked
            about it.
    """

    sentence_id: Name
    document: Name
    index: Count
    text: Name
    kind: TextKind = TextKind.SENTENCE
    topic: str | None = None
    boilerplate: bool = False


class FactRow(Stored):
    """A line of `facts.jsonl`: one atomic fact.

    Attributes:
        fact_id: unique; made of document and text, so that it stays when others change.
        citations: indices of the sentences of `document` that state it, ascending; empty
            where the document has the answer as such.
        passage: those sentences.
    """

    fact_id: Name
    document: Name
    text: Name
    citations: tuple[Count, ...]
    passage: Name
    topic: str | None = None


class QuestionRow(Stored):
    """A line of `questions.jsonl`, as `QuestionRecord.read` reads it.

    Attributes:
        id: that of the fact.
        passage: the chunk of the document that holds the answer.
        source: the document.
        chunk: position of the chunk in its document, from 0.
        fact: the fact that is asked for.
        made_by: `rules`, `model:NAME`, or empty for a pair that stands there as such.
    """

    id: Name
    question: Name
    answer: Name
    passage: Name
    source: Name
    chunk: Count = 0
    topic: str | None = None
    fact: str = ""
    citations: tuple[Count, ...] = ()
    made_by: str = ""


class FailureRow(Stored):
    """A line of `failures.jsonl`: what did not become what it should have.

    Attributes:
        stage: where.
        type: of the failure, one word.
        detail: one clause.
        document: which one.
        about: sentence or fact ids; empty for whole documents.
    """

    stage: Stage
    type: Name
    detail: str = ""
    document: str = ""
    about: tuple[str, ...] = ()

    @classmethod
    def of(cls, stage: Stage, fault: Fault, document: str, *about: str) -> FailureRow:
        """Make the row of a fault."""
        return cls(stage=stage, type=fault[0], detail=fault[1], document=document, about=about)


class CallRow(Stored):
    """A line of `calls/facts.jsonl` or `calls/questions.jsonl`: one finished request.

    Attributes:
        key: sha256 of what was sent, prompt and model name: the same is never asked twice.
        reply: the checked reply; None exactly where `error` is set.
        rejected: parts of the reply that failed the checks to the last, as (type, detail).
        error: (type, detail) of why there is no reply.
        calls: of the model, failed and repeated ones included.
        input_tokens: of those calls that were answered.
        output_tokens: likewise.
        estimated: the provider did not count tokens, they are estimated from the text.
    """

    key: Name
    reply: dict[str, object] | None = None
    rejected: tuple[Fault, ...] = ()
    error: Fault | None = None
    calls: Count = 0
    input_tokens: Count = 0
    output_tokens: Count = 0
    estimated: bool = False


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
    return TableSpec(f"calls/{stage}", CallRow, "key", hint=hint)


def last_calls(rows: Iterable[CallRow]) -> dict[str, CallRow]:
    """Finished calls by what they asked; of several rounds the last counts."""
    return {row.key.partition("~")[0]: row for row in rows}


def check_sizes(chunk_size: int, chunk_overlap: int) -> None:
    """Check that chunks can be cut.

    Raises:
        InputError: a size is out of range.
    """
    if chunk_size < 1:
        raise InputError("must be at least 1", where="chunk_size", hint="150 does well")
    if not 0 <= chunk_overlap < chunk_size:
        what = "must be at least 0 and less than the size of a chunk"
        raise InputError(what, where="chunk_overlap", hint="0 for none")
