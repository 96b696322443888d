"""Find the chunk that holds the answer of a question."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from langchain_core.documents import Document

from ._artefacts import FailureRow, QuestionRow, SentenceRow, Stage
from ._requests import words_of

# Text between two sentences, such as code, is part of a chunk and not of what they say.
_LEAST_SHARE = 0.9


def with_chunks(
    questions: Iterable[QuestionRow], sentences: Sequence[SentenceRow], chunks: Sequence[Document]
) -> tuple[list[QuestionRow], list[FailureRow]]:
    """Replace the passage of each question by the chunk of its document that holds the answer.

    Args:
        questions: whose passage is what states the answer.
        sentences: of all documents; those that questions cite.
        chunks: of all documents.

    Returns:
        The questions with chunks, and a failure for each whose answer no single chunk states:
        leaving out one chunk would leave a part of the answer.
    """
    texts = {(row.document, row.index): row.text for row in sentences}
    by_source: dict[str, list[_Chunk]] = defaultdict(list)
    for chunk in chunks:
        by_source[chunk.metadata["source"]].append(_Chunk.of(chunk))
    found: list[QuestionRow] = []
    failures: list[FailureRow] = []
    for row in questions:
        holder = _holder(_stated(row, texts), by_source[row.source])
        if holder is None:
            failures.append(
                FailureRow(
                    stage=Stage.QUESTIONS,
                    type="in_several_chunks",
                    detail="no single chunk states the answer; larger chunks may",
                    document=row.source,
                    about=(row.id,),
                )
            )
        else:
            found.append(row.model_copy(update={"passage": holder.text, "chunk": holder.number}))
    return found, failures


@dataclass(frozen=True, slots=True)
class _Chunk:
    number: int
    text: str
    words: str
    counts: Counter[str]

    @classmethod
    def of(cls, chunk: Document) -> _Chunk:
        words = words_of(chunk.page_content)
        number = chunk.metadata["chunk"]
        return cls(number, chunk.page_content, f" {' '.join(words)} ", Counter(words))


def _stated(row: QuestionRow, texts: Mapping[tuple[str, int], str]) -> list[list[str]]:
    """Return the words of each text that a chunk must hold."""
    if row.citations:
        return [words_of(texts[row.source, number]) for number in row.citations]
    return [words_of(row.question), words_of(row.answer)]


def _holder(stated: Sequence[Sequence[str]], chunks: Sequence[_Chunk]) -> _Chunk | None:
    """Return the first chunk that holds all texts, or nearly all of their words."""
    for chunk in chunks:
        if all(f" {' '.join(words)} " in chunk.words for words in stated):
            return chunk
    wanted = Counter(word for words in stated for word in words)
    shares = [(wanted & chunk.counts).total() / max(1, wanted.total()) for chunk in chunks]
    best = max(shares, default=0.0)
    return chunks[shares.index(best)] if best >= _LEAST_SHARE else None
