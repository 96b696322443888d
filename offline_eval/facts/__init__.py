"""From documents to questions: what a knowledge base says, and what to ask it.

    documents ─► sentences ─► facts (with the sentences they stand on) ─► questions

With a chat model or, without any, by rules (`cloze`). Pairs of question and answer
that stand in the documents as such (FAQs, tables) are taken over as they are.

The folder of a build:

    documents.jsonl   what was found, and why some of it gave nothing
    sentences.jsonl   all sentences, numbered within their document
    facts.jsonl       facts with their citations
    questions.jsonl   for `knowgate eval ookb --questions`
    failures.jsonl    typed: what did not become what it should have
    calls/            every finished request, by content; nothing is asked twice
    manifest.json     settings, hashes of inputs and prompts, cost
"""

from __future__ import annotations

from ._artefacts import (
    CallRow,
    DocumentRow,
    FactRow,
    FailureRow,
    QuestionRow,
    SentenceKind,
    SentenceRow,
    Stage,
)
from ._blocks import DocumentError
from ._build import BuildTotals, Spent, build_questions
from ._checks import answer_in_question, question_fault
from ._estimate import BuildEstimate, estimate_build
from ._prompts import BuildPrompts, fact_prompt, question_prompt
from ._sentences import split_sentences
from ._settings import NO_MODEL, BuildSettings, CallLimits

__all__ = [
    "NO_MODEL",
    "BuildEstimate",
    "BuildPrompts",
    "BuildSettings",
    "BuildTotals",
    "CallLimits",
    "CallRow",
    "DocumentError",
    "DocumentRow",
    "FactRow",
    "FailureRow",
    "QuestionRow",
    "SentenceKind",
    "SentenceRow",
    "Spent",
    "Stage",
    "answer_in_question",
    "build_questions",
    "estimate_build",
    "fact_prompt",
    "question_fault",
    "question_prompt",
    "split_sentences",
]
