"""Documents → sentences → facts → questions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.runnables import Runnable
from pydantic import BaseModel

from ....guard.errors import InputError
from ....guard.files import AnyPath
from ...run import CallLimits, Run
from ...run.calls import Calls, RunOptions
from ...run.manifest import InputFile
from ..questions import mean_shared_words
from ._asking import MAX_REPAIRS, ReplyFaultError, Request, SchemaAsker, estimated_tokens
from ._blocks import ReadDocument, TextKind
from ._chunks import chunks_of, with_chunks
from ._cloze import cloze_facts
from ._documents import find_documents, read_document
from ._rows import (
    COMPARED,
    DOCUMENTS,
    FACTS,
    FAILURES,
    QUESTIONS,
    SENTENCES,
    CallRow,
    DocumentRow,
    FactRow,
    FailureRow,
    QuestionRow,
    SentenceRow,
    Stage,
    build_manifest,
    calls_of,
    last_calls,
)
from ._sentences import sentences_of
from ._stages import (
    SENTENCES_PER_CALL,
    BuildSettings,
    FactsReply,
    QuestionReply,
    fact_request,
    facts_of,
    one_of_each,
    question_request,
    questions_of,
    stretches,
    unique_name,
)

# None of so many requests answered, and no other either: the rest would fare alike.
_HOPELESS_AFTER = 10
_LIMITS = CallLimits(timeout=60.0, max_attempts=4, first_wait=0.5)
# Assumed, not measured: a fact per sentence of content longer than this many characters,
# and replies about as long as these.
_SHORTEST = 20
_FACT_TOKENS, _QUESTION_TOKENS = 40, 50
_SCHEMAS: Mapping[Stage, type[BaseModel]] = {"facts": FactsReply, "questions": QuestionReply}
Places = Sequence[AnyPath]


_Asked = tuple[list[FactRow], list[QuestionRow], list[FailureRow]]


def _asked_of_model(
    run: Run,
    model: Runnable[Any, Any],
    settings: BuildSettings,
    options: RunOptions,
    sentences: Sequence[SentenceRow],
) -> tuple[_Asked, list[CallRow]]:
    """Ask for the facts in sentences and a question about each, whatever the folder has not yet.

    Returns:
        Facts, questions and failures; and the calls that were made.
    """
    spent: list[CallRow] = []
    limits = options.limits_or(_LIMITS)
    attempts = limits.max_attempts + MAX_REPAIRS
    limits = replace(limits, max_attempts=attempts, retry_on=(ReplyFaultError,))

    def ask(stage: Stage, requests: Iterable[Request]) -> dict[str, CallRow]:
        table = run[calls_of(stage)]
        before = table.rows()
        known = last_calls(before)
        rounds = Counter(row.key.partition("~")[0] for row in before)
        todo: list[Request] = []
        for key, request in {request.key: request for request in requests}.items():
            if key not in known:
                todo.append(request)
            elif options.retry_failed and known[key].error is not None:
                todo.append(replace(request, key=f"{key}~{rounds[key]}"))
        failed: list[Request] = []

        def unanswered(request: Request, error: Exception) -> dict[str, Any]:
            failed.append(request)
            if len(failed) == _HOPELESS_AFTER and all(one.last is None for one in todo):
                kind = type(error).__name__
                what = f"none of the first {len(failed)} requests was answered ({kind})"
                hint = "check name, key and network, and start again with --retry-failed"
                raise InputError(what, where=settings.model, hint=hint)
            return request.row(error)

        told = options.on_progress
        calls = Calls[Request](lambda request: request.key, unanswered, limits, told, stage)
        calls.run_sync(todo, SchemaAsker(model, _SCHEMAS[stage]), table)
        spent.extend(table.rows()[len(before) :])
        return last_calls(table.rows())

    asked = stretches(sentences)
    rows = ask("facts", (fact_request(stretch, settings) for stretch in asked))
    facts, failures = facts_of(asked, rows, settings)
    # Before the questions: whoever looks in while they are asked finds the facts.
    FACTS.write(run.folder, facts)
    rows = ask("questions", (question_request(fact, settings) for fact in facts))
    questions, unasked = questions_of(facts, rows, settings)
    return (facts, questions, [*failures, *unasked]), spent


def _spent(rows: Iterable[CallRow]) -> dict[str, int]:
    """Sum up what finished requests cost.

    `estimated_replies` are those whose provider counted no tokens, or not always: their share of
    the tokens is estimated from the text.
    """
    found = list(rows)
    tokens = ("calls", "input_tokens", "output_tokens")
    return {
        **{name: sum(getattr(row, name) for row in found) for name in tokens},
        "estimated_replies": sum(row.estimated for row in found),
    }


@dataclass(frozen=True, slots=True)
class BuildTotals:
    """The result of a build, in numbers.

    Attributes:
        documents: found.
        unread: of them, those that gave nothing.
        sentences: in all documents.
        facts: different ones.
        questions: written to `questions.jsonl`.
        failures: by type, all stages.
        shared_words: mean share of the content words of a question that its passage holds; None
            without questions.
        now: calls and tokens that this call cost.
        ever: likewise, what the folder cost so far.
    """

    documents: int
    unread: int
    sentences: int
    facts: int
    questions: int
    failures: dict[str, int]
    shared_words: float | None
    now: dict[str, int]
    ever: dict[str, int]


def build_questions(
    places: Places,
    out: AnyPath,
    *,
    model: Runnable[Any, Any] | None = None,
    settings: BuildSettings | None = None,
    options: RunOptions | None = None,
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
        options: how the model is asked, whether that is asked again which failed in an earlier
            build, and progress; its pool and notes are not used.

    Returns:
        What came of it; failures are counted, and stand in `failures.jsonl`.

    Raises:
        InputError: nothing to read, the folder cannot be used, or another build into it is
            under way.
    """
    settings = settings or BuildSettings()
    if (model is None) is settings.asks_model:
        raise InputError("model and its name do not go together", where="settings.model")
    documents, sentences, read = _read(places, out)
    head = _manifest_head(settings, documents)
    begun = build_manifest(**head, complete=False)
    with Run.create_or_resume(out, begun, compare=COMPARED) as run:
        run.rewrite_manifest(begun)
        DOCUMENTS.write(out, _document_rows(documents, sentences))
        SENTENCES.write(out, sentences)
        spent: Sequence[CallRow] = ()
        if model is None:
            facts, made, failures = cloze_facts(sentences)
        else:
            how = options or RunOptions()
            (facts, made, failures), spent = _asked_of_model(run, model, settings, how, sentences)
        chunks = chunks_of(documents, settings.chunk_size, settings.chunk_overlap)
        asked, cut = with_chunks([*_stated_pairs(documents), *made], sentences, chunks)
        questions, unfit = one_of_each(asked)
        faults = ((one.name, fault) for one in documents for fault in one.faults)
        unread = [FailureRow.of("documents", fault, name) for name, fault in faults]
        failures = [*unread, *failures, *cut, *unfit]
        FACTS.write(out, facts)
        QUESTIONS.write(out, questions)
        FAILURES.write(out, failures)
        ever = [row for stage in _SCHEMAS for row in calls_of(stage).read(out)]
        counts: dict[str, Any] = {
            **read,
            "facts": len(facts),
            "questions": len(questions),
            "failures": dict(sorted(Counter(row.type for row in failures).items())),
            "shared_words": mean_shared_words((row.question, row.passage) for row in questions),
        }
        cost = _spent(ever)
        run.rewrite_manifest(build_manifest(**head, complete=True, **counts, cost=cost))
    return BuildTotals(**counts, now=_spent(spent), ever=cost)


def _read(
    places: Places, out: AnyPath | None
) -> tuple[list[ReadDocument], list[SentenceRow], dict[str, int]]:
    """Read all documents but those in `out`; and say how many, and sentences, there are."""
    documents = [read_document(file) for file in find_documents(places, without=out)]
    sentences = sentences_of(documents)
    unread = sum(document.failure is not None for document in documents)
    counts = {"documents": len(documents), "unread": unread, "sentences": len(sentences)}
    return documents, sentences, counts


def _stated_pairs(documents: Iterable[ReadDocument]) -> Iterator[QuestionRow]:
    """Pairs of question and answer that stand in the documents as such."""
    taken = set[str]()
    for document in documents:
        for pair in document.pairs:
            yield QuestionRow(
                # Marked, so that no fact of the document has the same id.
                id=unique_name(taken, f"{document.name}:qa", f"{pair.question}\n{pair.answer}"),
                question=pair.question,
                answer=pair.answer,
                passage=pair.answer,
                source=document.name,
                topic=pair.topic,
            )


def _document_rows(
    documents: Iterable[ReadDocument],
    sentences: Iterable[SentenceRow],
) -> Iterator[DocumentRow]:
    counts = Counter(row.document for row in sentences)
    for document in documents:
        failure, detail = document.failure or (None, "")
        yield DocumentRow(
            document=document.name,
            sha256=document.sha256,
            kind=document.kind,
            sentences=counts[document.name],
            pairs=len(document.pairs),
            failure=failure,
            detail=detail,
        )


def _manifest_head(settings: BuildSettings, documents: Iterable[ReadDocument]) -> dict[str, Any]:
    prompts = {"fact_prompt": settings.fact_prompt, "question_prompt": settings.question_prompt}
    return {
        "settings": {
            # Structured output is used wherever the model has it.
            "structured": True,
            **{name: prompt.name for name, prompt in prompts.items()},
            **{f"{name}_sha256": prompt.sha256 for name, prompt in prompts.items()},
            "model": settings.model,
            "sentences_per_call": SENTENCES_PER_CALL,
            "max_repairs": MAX_REPAIRS,
            "chunk_size": settings.chunk_size,
            "chunk_overlap": settings.chunk_overlap,
        },
        "inputs": tuple(InputFile(name=one.name, sha256=one.sha256) for one in documents),
    }


def estimate_build(
    places: Places, out: AnyPath | None = None, *, settings: BuildSettings | None = None
) -> dict[str, int]:
    """Say what `build_questions` would do; nothing is asked or written.

    Every token count is an estimate from the length of the text.

    Args:
        places: files, and folders with all below them.
        out: folder of an earlier build, whose answers need not be asked for again.
        settings: what is asked.

    Returns:
        Numbers of documents, of those that give nothing, of sentences, and of pairs of question
        and answer that stand in the documents. Requests for facts without an answer yet, requests
        for questions expected (one a fact; exact as far as facts are known, one per sentence of
        content for the rest), and those that an earlier build answered; tokens of all expected
        requests, without repeated ones, and of their replies.

    Raises:
        InputError: nothing to read, or the folder cannot be used.
    """
    settings = settings or BuildSettings()
    if out is not None:
        build_manifest().is_in(out, compare=COMPARED)
    documents, sentences, read = _read(places, out)
    return {
        **read,
        "pairs": sum(len(document.pairs) for document in documents),
        **_expected_calls(sentences if settings.asks_model else (), out, settings),
    }


def _expected_calls(
    sentences: Sequence[SentenceRow],
    out: AnyPath | None,
    settings: BuildSettings,
) -> dict[str, int]:
    answered, answered_questions = (
        last_calls(() if out is None else calls_of(stage).read(out)) for stage in _SCHEMAS
    )
    asked = stretches(sentences)
    keyed = {fact_request(stretch, settings).key: stretch for stretch in asked}
    todo = [stretch for key, stretch in keyed.items() if key not in answered]
    facts, _ = facts_of(asked, answered, settings)
    requests = [question_request(fact, settings) for fact in facts]
    questions = [one for one in requests if one.key not in answered_questions]
    expected = [
        sentence.text
        for stretch in todo
        for sentence in stretch
        if sentence.kind is not TextKind.HEADING and len(sentence.text) > _SHORTEST
    ]
    # Either a tool's description or words in the prompt: the model reads the schema.
    facts_schema, question_schema = (
        estimated_tokens(json.dumps(schema.model_json_schema())) for schema in _SCHEMAS.values()
    )
    prompts = [fact_request(stretch, settings).prompt for stretch in todo]
    bare = estimated_tokens(settings.question_prompt.text) + question_schema
    known = len(keyed) + len(facts)
    calls = len(questions) + len(expected)
    return {
        "fact_calls": len(todo),
        "question_calls": calls,
        "answered_calls": known - len(todo) - len(questions),
        "input_tokens": sum(estimated_tokens(prompt) + facts_schema for prompt in prompts)
        + sum(estimated_tokens(request.prompt) + question_schema for request in questions)
        # A fact and the sentence that it comes from are about as long as one another.
        + sum(bare + 2 * estimated_tokens(text) for text in expected),
        "output_tokens": _FACT_TOKENS * len(expected) + _QUESTION_TOKENS * calls,
    }
