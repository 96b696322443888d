"""Documents → sentences → facts → questions."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import Runnable
from pydantic import BaseModel

from ....guard.errors import InputError
from ...run import (
    CallLimits,
    Calls,
    InputFile,
    OnProgress,
    Run,
)
from .._shared_words import SHARED_BY_PEOPLE, mean_shared_words
from ._artefacts import CallRow, DocumentRow, FactRow, FailureRow, QuestionRow, SentenceRow, Stage
from ._asking import (
    ReplyFaultError,
    Request,
    SchemaAsker,
    one_of_each,
    question_request,
    questions_of,
)
from ._chunks import chunks_of
from ._cloze import cloze_facts
from ._documents import ReadDocument, find_documents, read_document
from ._fact_requests import Stretch, UniqueNames, fact_request, facts_of, stretches
from ._folder import (
    COMPARED,
    DOCUMENTS,
    FACTS,
    FAILURES,
    QUESTIONS,
    SENTENCES,
    AnsweredCalls,
    build_manifest,
    calls_of,
)
from ._passages import with_chunks
from ._records import BuildSettings
from ._requests import FactsReply, QuestionReply
from ._sentences import sentences_of

# None of so many requests answered, and no other either: the rest would fare alike.
_HOPELESS_AFTER = 10

_LIMITS = CallLimits(timeout=60.0, max_attempts=4, first_wait=0.5)


class PaidStages:
    """Asks the model whatever the folder has no answer to.

    Args:
        run: the folder of the build, open.
        model: who is asked.
        settings: what is asked.
        limits: how.
        retry_failed: ask again what failed the last time.
        on_progress: called after every finished request.
    """

    def __init__(
        self,
        run: Run,
        model: Runnable[Any, Any],
        settings: BuildSettings,
        limits: CallLimits,
        *,
        retry_failed: bool,
        on_progress: OnProgress | None,
    ) -> None:
        self._folder, self._model = run, model
        self._settings, self._limits = settings, limits
        self._retry_failed = retry_failed
        self._on_progress = on_progress
        self.spent: list[CallRow] = []

    def facts(self, asked: Sequence[Stretch]) -> dict[str, CallRow]:
        """The calls for all stretches, by key."""
        prompts = self._settings.prompts
        requests = {row.key: fact_request(row, prompts) for row in asked}
        return self._run(Stage.FACTS, FactsReply, requests)

    def questions(self, facts: Sequence[FactRow]) -> dict[str, CallRow]:
        """The calls for all facts, by key."""
        name, prompts = self._settings.model, self._settings.prompts
        made = (question_request(fact, model=name, prompts=prompts) for fact in facts)
        requests = {request.key: request for request in made}
        return self._run(Stage.QUESTIONS, QuestionReply, requests)

    def _run(
        self, stage: Stage, schema: type[BaseModel], requests: dict[str, Request]
    ) -> dict[str, CallRow]:
        asker = SchemaAsker(
            self._model,
            schema,
            self._settings.prompts,
            structured=self._settings.structured,
            max_repairs=self._settings.max_repairs,
        )
        limits = self._limits
        table = self._folder[calls_of(stage)]
        before = AnsweredCalls(table.rows())
        todo = _todo(requests, before, again=self._retry_failed)
        unanswered = _Unanswered(self._settings.model, todo)
        limits = replace(
            limits,
            max_attempts=limits.max_attempts + self._settings.max_repairs,
            retry_on=(ReplyFaultError,),
        )
        calls = Calls[Request](
            lambda request: request.key, unanswered.row, limits, self._on_progress, stage.value
        )
        calls.run_sync(todo, asker, table)
        after = AnsweredCalls(table.rows())
        self.spent += after.all[len(before.all) :]
        return after.by_key


class _Unanswered:
    """Makes rows of requests that got no answer, as long as that is not all of them."""

    def __init__(self, model: str, requests: Sequence[Request]) -> None:
        self._model, self._requests = model, requests
        self._failed = 0

    def row(self, request: Request, error: Exception) -> dict[str, Any]:
        """The row that says why.

        Raises:
            InputError: the model answers nothing at all.
        """
        self._failed += 1
        if self._failed == _HOPELESS_AFTER and all(row.last is None for row in self._requests):
            raise InputError(
                f"none of the first {self._failed} requests was answered ({type(error).__name__})",
                where=self._model,
                hint="check name, key and network, and start again with --retry-failed",
            )
        return request.row(error)


def _todo(requests: dict[str, Request], before: AnsweredCalls, *, again: bool) -> list[Request]:
    found: list[Request] = []
    for key, request in requests.items():
        stored_as = before.key_to_ask(key, again_if_failed=again)
        if stored_as is not None:
            found.append(replace(request, key=stored_as))
    return found


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost of calls.

    Attributes:
        calls: of the model, failed and repeated ones included.
        input_tokens: of those that were answered.
        output_tokens: likewise.
        estimated_replies: finished requests whose provider counted no tokens, or not
            always: their share of the tokens is estimated from the text.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    estimated_replies: int = 0

    def __str__(self) -> str:
        said = f"{self.calls:,} calls, {self.input_tokens:,} tokens in, {self.output_tokens:,} out"
        return f"{said} (estimated in part)" if self.estimated_replies else said

    @classmethod
    def of(cls, rows: Iterable[CallRow]) -> Spent:
        """Return the sum over finished requests."""
        held = list(rows)
        return cls(
            sum(row.calls for row in held),
            sum(row.input_tokens for row in held),
            sum(row.output_tokens for row in held),
            sum(row.estimated for row in held),
        )


@dataclass(frozen=True, slots=True)
class BuildTotals:
    """The result of a build, in numbers; as text, what the user is told.

    Attributes:
        documents: found.
        unread: of them, those that gave nothing.
        sentences: in all documents.
        facts: different ones.
        questions: written to `questions.jsonl`.
        failures: by type, all stages.
        shared_words: mean share of the content words of a question that its passage holds; None
            without questions.
        now: spent by this call.
        ever: spent on the folder so far.
    """

    documents: int
    unread: int
    sentences: int
    facts: int
    questions: int
    failures: dict[str, int]
    shared_words: float | None
    now: Spent
    ever: Spent

    def __str__(self) -> str:
        lines = [
            f"documents: {self.documents:,}, of which {self.unread:,} gave nothing · sentences: "
            f"{self.sentences:,} · facts: {self.facts:,} · questions: {self.questions:,}"
        ]
        if self.failures:
            types = ", ".join(f"{name} {count:,}" for name, count in self.failures.items())
            lines.append(f"failures: {types} (see failures.jsonl)")
        if self.shared_words is not None:
            lines.append(
                f"words shared with the passage: {self.shared_words:.0%} of a question's; of "
                f"questions that users put, {SHARED_BY_PEOPLE:.0%}: the more, the easier"
            )
        if self.ever.calls:
            lines.append(f"cost: {self.ever}; this time: {self.now}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ReadBase:
    """Documents as read, before any call.

    Attributes:
        documents: all that were found, in order.
        sentences: of all of them.
        questions: pairs that stand in the documents as such.
        failures: what could not be read.
    """

    documents: tuple[ReadDocument, ...]
    sentences: tuple[SentenceRow, ...]
    questions: tuple[QuestionRow, ...]
    failures: tuple[FailureRow, ...]

    def chunks(self, settings: BuildSettings) -> list[Document]:
        """Cut the documents into chunks."""
        return chunks_of(self.documents, settings.chunk_size, settings.chunk_overlap)


def read_base(
    places: Sequence[str | os.PathLike[str]], *, without: str | os.PathLike[str] | None = None
) -> ReadBase:
    """Read all documents and split them into sentences.

    Args:
        places: files, and folders with all below them.
        without: a folder that is passed over.

    Raises:
        InputError: a place does not exist, or there is no document.
    """
    documents = tuple(read_document(file) for file in find_documents(places, without=without))
    return ReadBase(
        documents,
        tuple(sentences_of(documents)),
        tuple(_pairs(documents)),
        tuple(_failures(documents)),
    )


def build_questions(
    places: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    model: Runnable[Any, Any] | None = None,
    settings: BuildSettings | None = None,
    limits: CallLimits | None = None,
    retry_failed: bool = False,
    on_progress: OnProgress | None = None,
) -> BuildTotals:
    """Build a knowledge base of questions from documents.

    A killed build resumes; whatever the model has answered is kept
    by content and not asked again, also when other documents have changed.

    Args:
        places: files, and folders with all below them.
        out: folder of the knowledge base; made if missing. Below a folder of documents it
            is passed over.
        model: chat model or runnable to ask; None for rules alone.
        settings: what is asked; its `model` must name `model`.
        limits: how the model is asked.
        retry_failed: ask again what failed in an earlier build.
        on_progress: called after every finished request.

    Returns:
        What came of it; failures are counted, and stand in `failures.jsonl`.

    Raises:
        InputError: nothing to read, the folder cannot be used, or another build into it is
            under way.
    """
    settings = settings or BuildSettings()
    if (model is None) is settings.asks_model:
        raise InputError("model and its name do not go together", where="settings.model")
    base = read_base(places, without=out)
    head = _manifest_head(settings, base)
    begun = build_manifest(**head, complete=False)
    with Run.create_or_resume(out, begun, compare=COMPARED) as run:
        run.rewrite_manifest(begun)
        DOCUMENTS.write(out, _document_rows(base))
        SENTENCES.write(out, base.sentences)
        stages: PaidStages | None = None
        if model is None:
            facts, made, failures = cloze_facts(base.sentences)
        else:
            stages = PaidStages(
                run,
                model,
                settings,
                limits or _LIMITS,
                retry_failed=retry_failed,
                on_progress=on_progress,
            )
            facts, made, failures = _asked(run, stages, base, settings)
        asked, cut = with_chunks([*base.questions, *made], base.sentences, base.chunks(settings))
        made_of = _Made(facts, asked, [*base.failures, *failures, *cut])
        totals = _finished(run, base, made_of, stages.spent if stages else ())
        run.rewrite_manifest(build_manifest(**head, complete=True, **_counts(totals)))
    return totals


@dataclass(frozen=True, slots=True)
class _Made:
    """The results of the stages, before equal questions are merged."""

    facts: list[FactRow]
    questions: list[QuestionRow]
    failures: list[FailureRow]


def _finished(run: Run, base: ReadBase, made: _Made, spent: Iterable[CallRow]) -> BuildTotals:
    """Write what was made, and count it."""
    questions, unfit = one_of_each(made.questions)
    failures = [*made.failures, *unfit]
    FACTS.write(run.folder, made.facts)
    QUESTIONS.write(run.folder, questions)
    FAILURES.write(run.folder, failures)
    ever = [
        row for stage in (Stage.FACTS, Stage.QUESTIONS) for row in calls_of(stage).read(run.folder)
    ]
    return BuildTotals(
        documents=len(base.documents),
        unread=sum(document.failure is not None for document in base.documents),
        sentences=len(base.sentences),
        facts=len(made.facts),
        questions=len(questions),
        failures=dict(sorted(Counter(row.type for row in failures).items())),
        shared_words=mean_shared_words((row.question, row.passage) for row in questions),
        now=Spent.of(spent),
        ever=Spent.of(ever),
    )


def _asked(
    run: Run, stages: PaidStages, base: ReadBase, settings: BuildSettings
) -> tuple[list[FactRow], list[QuestionRow], list[FailureRow]]:
    asked = stretches(
        base.sentences,
        model=settings.model,
        prompts=settings.prompts,
        size=settings.sentences_per_call,
    )
    facts, failures = facts_of(asked, stages.facts(asked))
    # Before the questions: whoever looks in while they are asked finds the facts.
    FACTS.write(run.folder, facts)
    rows = stages.questions(facts)
    questions, unasked = questions_of(facts, rows, model=settings.model, prompts=settings.prompts)
    return facts, questions, [*failures, *unasked]


def _pairs(documents: Iterable[ReadDocument]) -> Iterable[QuestionRow]:
    names = UniqueNames()
    for document in documents:
        for pair in document.content.pairs if document.content else ():
            yield QuestionRow(
                # Marked, so that no fact of the document has the same id.
                id=names.name(f"{document.name}:qa", f"{pair.question}\n{pair.answer}"),
                question=pair.question,
                answer=pair.answer,
                passage=pair.answer,
                source=document.name,
                topic=pair.topic,
            )


def _failures(documents: Iterable[ReadDocument]) -> Iterable[FailureRow]:
    for document in documents:
        faults = [document.failure] if document.failure else []
        faults += document.content.faults if document.content else ()
        for type_, detail in faults:
            yield FailureRow(
                stage=Stage.DOCUMENTS, type=type_, detail=detail, document=document.name
            )


def _document_rows(base: ReadBase) -> Iterable[DocumentRow]:
    sentences = Counter(row.document for row in base.sentences)
    for document in base.documents:
        failure, detail = document.failure or (None, "")
        yield DocumentRow(
            document=document.name,
            sha256=document.sha256,
            kind=document.content.kind if document.content else "",
            sentences=sentences[document.name],
            pairs=len(document.content.pairs) if document.content else 0,
            failure=failure,
            detail=detail,
        )


def _manifest_head(settings: BuildSettings, base: ReadBase) -> dict[str, Any]:
    prompts = settings.prompts
    return {
        "settings": {
            "model": settings.model,
            "fact_prompt": prompts.facts.name,
            "fact_prompt_sha256": prompts.facts.sha256,
            "question_prompt": prompts.question.name,
            "question_prompt_sha256": prompts.question.sha256,
            "structured": settings.structured,
            "sentences_per_call": settings.sentences_per_call,
            "max_repairs": settings.max_repairs,
            "chunk_size": settings.chunk_size,
            "chunk_overlap": settings.chunk_overlap,
        },
        "inputs": tuple(
            InputFile(name=document.name, sha256=document.sha256) for document in base.documents
        ),
    }


def _counts(totals: BuildTotals) -> dict[str, Any]:
    return {
        "documents": totals.documents,
        "unread": totals.unread,
        "sentences": totals.sentences,
        "facts": totals.facts,
        "questions": totals.questions,
        "failures": totals.failures,
        "shared_words": totals.shared_words,
        "cost": {
            "calls": totals.ever.calls,
            "input_tokens": totals.ever.input_tokens,
            "output_tokens": totals.ever.output_tokens,
            "estimated_replies": totals.ever.estimated_replies,
        },
    }
