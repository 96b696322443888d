"""Estimate the calls and the cost of a build before anything is spent or written."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ._artefacts import FactRow, SentenceKind, SentenceRow, Stage
from ._asking import question_key, question_prompt_text
from ._build import read_base
from ._fact_requests import Stretch, fact_prompt_text, facts_of, stretches
from ._folder import COMPARED, AnsweredCalls, build_manifest, calls_of
from ._records import BuildSettings
from ._requests import FactsReply, QuestionReply, estimated_tokens

# Assumed, not measured: a fact per sentence of content longer than this many characters,
# and replies about as long as these.
_SHORTEST = 20
_FACT_TOKENS, _QUESTION_TOKENS = 40, 50


@dataclass(frozen=True, slots=True)
class BuildEstimate:
    """What a build would do; every token count is an estimate from the length of the text.

    Attributes:
        documents: found.
        unread: of them, those that give nothing.
        sentences: in all documents.
        pairs: of question and answer that stand in them as such.
        fact_calls: requests for facts that have no answer yet.
        question_calls: requests for questions expected, one a fact; exact as far as facts
            are known, one per sentence of content for the rest.
        answered_calls: requests answered by an earlier build.
        input_tokens: of all expected requests, without repeated ones.
        output_tokens: of their replies.
    """

    documents: int
    unread: int
    sentences: int
    pairs: int
    fact_calls: int = 0
    question_calls: int = 0
    answered_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def __str__(self) -> str:
        return (
            f"documents: {self.documents:,}, of which {self.unread:,} give nothing · sentences: "
            f"{self.sentences:,} · pairs of question and answer: {self.pairs:,}\n"
            f"calls: {self.fact_calls:,} for facts, about {self.question_calls:,} for questions "
            f"({self.answered_calls:,} answered already)\n"
            f"tokens, estimated: {self.input_tokens:,} in, {self.output_tokens:,} out\n"
            "nothing was asked and nothing written"
        )

    @classmethod
    def of(
        cls,
        places: Sequence[str | os.PathLike[str]],
        out: str | os.PathLike[str] | None = None,
        *,
        settings: BuildSettings | None = None,
    ) -> BuildEstimate:
        """Estimate what `build_questions` would do; nothing is asked or written.

        Args:
            places: files, and folders with all below them.
            out: folder of an earlier build, whose answers need not be asked for again.
            settings: what is asked.

        Raises:
            InputError: nothing to read, or the folder cannot be used.
        """
        settings = settings or BuildSettings()
        if out is not None:
            build_manifest().is_in(out, compare=COMPARED)
        base = read_base(places, without=out)
        unread = sum(document.failure is not None for document in base.documents)
        known = cls(len(base.documents), unread, len(base.sentences), len(base.questions))
        if not settings.asks_model:
            return known
        done = _answered(out, Stage.FACTS)
        asked = stretches(
            base.sentences,
            model=settings.model,
            prompts=settings.prompts,
            size=settings.sentences_per_call,
        )
        todo = {row.key: row for row in asked if row.key not in done.by_key}
        facts, _ = facts_of(asked, done.by_key)
        answered = _answered(out, Stage.QUESTIONS)
        questions = [
            fact
            for fact in facts
            if question_key(fact, model=settings.model, prompts=settings.prompts)
            not in answered.by_key
        ]
        expected = [
            sentence
            for stretch in todo.values()
            for sentence in stretch.sentences
            if sentence.kind is not SentenceKind.HEADING and len(sentence.text) > _SHORTEST
        ]
        asked_for = len(questions) + len(expected)
        answered_calls = len({row.key for row in asked}) - len(todo) + len(facts) - len(questions)
        return replace(
            known,
            fact_calls=len(todo),
            question_calls=asked_for,
            answered_calls=answered_calls,
            input_tokens=_tokens_read(list(todo.values()), questions, expected, settings),
            output_tokens=_FACT_TOKENS * len(expected) + _QUESTION_TOKENS * asked_for,
        )


def _answered(out: str | os.PathLike[str] | None, stage: Stage) -> AnsweredCalls:
    return AnsweredCalls(() if out is None else calls_of(stage).read(out))


def _tokens_read(
    todo: Sequence[Stretch],
    questions: Sequence[FactRow],
    expected: Sequence[SentenceRow],
    settings: BuildSettings,
) -> int:
    """Tokens of all requests: for facts, for known facts' questions, for expected ones'."""
    # Either a tool's description or words in the prompt: the model reads the schema.
    facts_schema, question_schema = (
        estimated_tokens(json.dumps(schema.model_json_schema()))
        for schema in (FactsReply, QuestionReply)
    )
    prompts = settings.prompts
    bare = estimated_tokens(prompts.question.text) + question_schema
    read = sum(estimated_tokens(fact_prompt_text(row, prompts)) + facts_schema for row in todo)
    read += sum(
        estimated_tokens(question_prompt_text(fact, prompts)) + question_schema
        for fact in questions
    )
    # A fact and the sentence that it comes from are about as long as one another.
    return read + sum(bare + 2 * estimated_tokens(sentence.text) for sentence in expected)
