"""From documents to questions: what a knowledge base says, and what to ask it.

    documents ─► sentences ─► facts (with the sentences they stand on) ─► questions

With a chat model or, without any, by rules (`cloze`). Pairs of question and answer
that stand in the documents as such (FAQs, tables) are taken over as they are.

The folder of a build:

    documents.jsonl   what was found, and why some of it gave nothing
    sentences.jsonl   all sentences, numbered within their document
    facts.jsonl       facts with their citations
    questions.jsonl   for `knowgate measure --questions`
    failures.jsonl    typed: what did not become what it should have
    calls/            every finished request, by content; nothing is asked twice
    manifest.json     settings, hashes of inputs and prompts, cost
"""

from __future__ import annotations

from ._chunks import load_chunks
from ._stages import BuildSettings
from .build import build_questions

__all__ = ["BuildSettings", "build_questions", "load_chunks"]
