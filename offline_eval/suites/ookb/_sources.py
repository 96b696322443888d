"""Find which chunks hold the source of a question: by metadata, by passage, or by the answer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from langchain_core.documents import Document

from ...data import Label, QuestionRecord
from ...data.diversity import words_of
from ...run import FoundBy, SourceRow

DEFAULT_KEY = "source"
# Chunks are cut elsewhere than the passage that a question names: they share part of it.
_GRAM, _SHARED = 4, 0.5
# An answer that stands in more of what is retrieved than this says nothing about its source.
_EVERYWHERE = 0.5


@dataclass(frozen=True, slots=True)
class Source:
    """Where the answer of a question stands.

    Attributes:
        found_by: what it is known from.
        label: of the document in its metadata; empty where another way was taken.
        passage: words of the named passage; empty where there is none.
        answer: words of the answer, where some chunk of the source holds it.
        key: of the metadata.
        pages: that are left out as a whole, besides.
    """

    found_by: FoundBy
    label: str = ""
    passage: tuple[str, ...] = ()
    answer: tuple[str, ...] = ()
    key: str = DEFAULT_KEY
    pages: frozenset[Label] = frozenset()

    def leaves_out(self, document: Document) -> bool:
        """Return whether a chunk goes when the source is left out."""
        if any(page_of(document, self.key).overlaps(page) for page in self.pages):
            return True
        if self.found_by is FoundBy.METADATA:
            # A short answer stands in other documents by chance; the passage does not.
            return self._labelled(document) or bool(self.passage and self._holds(document))
        return self._holds(document)

    def answers(self, document: Document) -> bool:
        """Return whether a chunk holds what the question asks for, as far as is known."""
        if self.found_by is not FoundBy.METADATA:
            return self._holds(document)
        if not self._labelled(document):
            return False
        return self._holds(document) or not (self.passage or self.answer)

    def _holds(self, document: Document) -> bool:
        words = words_of(document.page_content)
        if self.passage:
            return overlap(self.passage, words)
        return bool(self.answer) and holds_answer(words, self.answer)

    def _labelled(self, document: Document) -> bool:
        return same_source(document.metadata.get(self.key), self.label)


def same_source(label: object, named: str) -> bool:
    """Return whether a label of a document names what a question names; see `Label.overlaps`."""
    one, other = Label.of(label), Label.of(named)
    return one is not None and other is not None and one.overlaps(other)


def label_of(document: Document, key: str) -> Label | None:
    """Return what the metadata names as the source of a chunk, None where it names nothing."""
    return Label.of(document.metadata.get(key))


def page_of(document: Document, key: str) -> Label:
    """Return the page of a chunk; one without a label is a page of its own."""
    label = label_of(document, key)
    return Label((chunk_id(document, key),)) if label is None else label.whole


def find_source(
    record: QuestionRecord, wide: Sequence[Document], key: str, *, exists: bool = False
) -> Source:
    """Return how the source of a question is known.

    The label in the metadata comes first, if a document carries it; then the passage that the
    question names; then chunks that hold the answer (see `holds_answer`), unless half of what is
    retrieved does.

    Args:
        record: the question.
        wide: many documents retrieved for it.
        key: of the metadata.
        exists: some document has the label that the question names, even if none of `wide`.
    """
    passage = tuple(words_of(record.passage)) if record.passage else ()
    answer = tuple(words_of(record.answer))
    labelled = Source(FoundBy.METADATA, record.source or "", passage, key=key)
    own = [one for one in wide if labelled._labelled(one)]
    if own or exists:
        stands = any(holds_answer(words_of(one.page_content), answer) for one in own)
        return replace(labelled, answer=answer if stands else ())
    if passage:
        return Source(FoundBy.PASSAGE, passage=passage, key=key)
    holding = sum(holds_answer(words_of(one.page_content), answer) for one in wide) if answer else 0
    if 0 < holding <= max(1, int(_EVERYWHERE * len(wide))):
        return Source(FoundBy.ANSWER, answer=answer, key=key)
    return Source(FoundBy.UNKNOWN, key=key)


def source_row(record: QuestionRecord, source: Source, wide: Sequence[Document]) -> SourceRow:
    """Return what the run stores: how the source was found, and what identifies it."""
    if source.found_by is FoundBy.METADATA:
        name = source.label
    elif source.found_by is FoundBy.PASSAGE:
        name = f"passage-{_digest(' '.join(source.passage))}"
    else:
        first = next((one for one in wide if source.leaves_out(one)), None)
        name = "" if first is None else chunk_id(first, source.key)
    return SourceRow(question_id=record.question_id, found_by=source.found_by, source=name)


def chunk_id(document: Document, key: str) -> str:
    """Identify a chunk by its source and its text."""
    label = document.metadata.get(key)
    stem = str(label) if isinstance(label, str | int) else "chunk"
    return f"{stem}#{_digest(document.page_content)}"


def overlap(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether two texts share at least half of the shorter one, four words at a time."""
    size = max(1, min(_GRAM, len(one), len(other)))
    first, second = _grams(one, size), _grams(other, size)
    smaller = min(len(first), len(second))
    return smaller > 0 and len(first & second) >= _SHARED * smaller


def _grams(words: Sequence[str], size: int) -> set[tuple[str, ...]]:
    return {tuple(words[at : at + size]) for at in range(len(words) - size + 1)}


def holds_answer(words: Sequence[str], answer: Sequence[str]) -> bool:
    """Return whether a text probably holds an answer.

    An answer of fewer than four words must stand there word for word; of a longer one all
    numbers, and at least half of its pairs of neighbouring words.
    """
    if len(answer) < _GRAM:
        return bool(answer) and f" {' '.join(answer)} " in f" {' '.join(words)} "
    if not {word for word in answer if any(map(str.isdigit, word))} <= set(words):
        return False
    pairs = _grams(answer, 2)
    return len(pairs & _grams(words, 2)) >= _SHARED * len(pairs)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
