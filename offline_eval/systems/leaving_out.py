"""What is left out in a left-out case: the source of the answer, its page, or its topic.

passages of questions ─► pages of each ─► with the pages on its topic ─► units of evidence
documents of a chain ─► source of each question (or unmatched) ─► pages, topic ─► units

`left_out_check` tells whether an answer stands elsewhere all the same.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import compress
from pathlib import Path

from langchain_core.documents import Document

from ...guard.engine import BiEncoderScorer
from ...guard.errors import InputError, KnowgateError
from ...guard.read_models import read_models
from ..data.diversity.uniqueness import words_of
from ..data.embedding import embed_all
from ..data.labels import Label, units
from ..data.questions import KnowledgeBase, PassageKind, QuestionRecord
from ..run.manifest import Stored
from ..run.questions import FoundBy, LeaveOut, SourceRow, UnmatchedSourceError
from ..run.table import TableSpec
from .served import ServedChain

# Field of the metadata of documents that names their source.
DEFAULT_KEY = "source"

# Chunks are cut elsewhere than the passage that a question names: they share part of it.
_GRAM, _SHARED = 4, 0.5
# A shorter answer stands in a text by chance.
FEWEST_WORDS = 4
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
        return overlap(self.passage, words) if self.passage else holds_answer(words, self.answer)

    def _labelled(self, document: Document) -> bool:
        return same_source(document.metadata.get(self.key), self.label)


def same_source(label: object, named: str) -> bool:
    """Return whether a label of a document names what a question names; see `Label.overlaps`."""
    one, other = Label.of(label), Label.of(named)
    return one is not None and other is not None and one.overlaps(other)


def page_of(document: Document, key: str) -> Label:
    """Return the page of a chunk; one without a label is a page of its own."""
    label = Label.of(document.metadata.get(key))
    return Label((chunk_id(document, key),)) if label is None else label.whole


def find_source(
    record: QuestionRecord, wide: Sequence[Document], key: str, *, exists: bool = False
) -> Source | None:
    """Return how the source of a question is known; None where it is not.

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
    holders = [one for one in wide if holds_answer(words_of(one.page_content), answer)]
    if exists or any(map(labelled._labelled, wide)):
        stands = any(map(labelled._labelled, holders))
        return replace(labelled, answer=answer if stands else ())
    if passage:
        return Source(FoundBy.PASSAGE, passage=passage, key=key)
    if 0 < len(holders) <= max(1, int(_EVERYWHERE * len(wide))):
        return Source(FoundBy.ANSWER, answer=answer, key=key)
    return None


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


def stands_in(words: Sequence[str], answer: Sequence[str]) -> bool:
    """Return whether words stand in a text one after the other."""
    return f" {' '.join(answer)} " in f" {' '.join(words)} "


def holds_answer(words: Sequence[str], answer: Sequence[str]) -> bool:
    """Return whether a text probably holds an answer.

    An answer of fewer than four words must stand there word for word; of a longer one all
    numbers, and at least half of its pairs of neighbouring words.
    """
    if len(answer) < FEWEST_WORDS:
        return bool(answer) and stands_in(words, answer)
    if not {word for word in answer if any(map(str.isdigit, word))} <= set(words):
        return False
    pairs = _grams(answer, 2)
    return len(pairs & _grams(words, 2)) >= _SHARED * len(pairs)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


# A cosine of the bundled bi-encoder. Two passages on one subject are above it; passages that
# only share the product are below.
SAME_TOPIC = 0.7


def on_topic(own: Sequence[str], texts: Sequence[str], encoder: BiEncoderScorer) -> list[bool]:
    """Return for each text whether it is on the topic of one of `own`."""
    if not own or not texts:
        return [False] * len(texts)
    cosines = embed_all(texts, encoder) @ embed_all(own, encoder).T
    return [bool(nearest >= SAME_TOPIC) for nearest in cosines.max(axis=1)]


def passages_together(
    records: Sequence[QuestionRecord], base: KnowledgeBase, leave_out: LeaveOut
) -> tuple[Mapping[str, frozenset[str]], Mapping[str, str]]:
    """Find which passages go together: the passage alone, its page, or its topic.

    The page are the passages whose questions name one `source`, its fragment aside.

    Args:
        records: the questions.
        base: their passages.
        leave_out: what goes.

    Returns:
        By passage, the ids of those that are left out with it, and the one whose evidence it
        shares.
    """
    if leave_out is LeaveOut.SOURCE:
        return {name: frozenset({name}) for name in base.passages}, {n: n for n in base.passages}
    pages = wide = _pages(records, base)
    if leave_out is LeaveOut.TOPIC:
        encoder, texts = BiEncoderScorer(), list(base.passages.values())
        wide = {}
        for name, text in base.passages.items():
            near = compress(base.passages, on_topic([text], texts, encoder))
            wide[name] = pages[name].union(*(pages[other] for other in near))
    holding: dict[Label, set[str]] = defaultdict(set)
    for name, own in pages.items():
        for page in own:
            holding[page].add(name)
    left_out = {
        name: frozenset(other for page in several for other in holding[page])
        for name, several in wide.items()
    }
    return left_out, units(wide)


def _pages(records: Sequence[QuestionRecord], base: KnowledgeBase) -> dict[str, set[Label]]:
    """Return the pages of each passage; one without a source is a page of its own."""
    named: dict[str, set[Label]] = {name: set() for name in base.passages}
    for record in records:
        label = Label.of(record.source)
        if label is not None:
            named[base.passage_of[record.question_id]].add(label.whole)
    merged = Label.merged(label for several in named.values() for label in several)
    return {
        name: {merged[label] for label in several} or {Label((name,), "passage")}
        for name, several in named.items()
    }


def sizes_of_units(
    path: Path, leave_out: LeaveOut, kind: PassageKind | None, *, served: bool
) -> list[int]:
    """Count the questions of each unit of evidence, as a run of `knowgate measure` has them.

    Args:
        path: file of the questions.
        leave_out: what goes. Of documents, nobody knows the topics yet: then their pages count.
        kind: what a passage holds.
        served: documents are searched, and what the questions name as their source is left out;
            otherwise the passages of the questions are.

    Raises:
        InputError: the file cannot be used.
    """
    records = QuestionRecord.read(path, need_answer=not served)
    if not served:
        base = KnowledgeBase.of(records, kind, where=str(path))
        _, unit = passages_together(records, base, leave_out)
        return list(Counter(unit[name] for name in base.passage_of.values()).values())
    named: list[Label | str] = []
    for record in records:
        label = Label.of(record.source)
        if label is not None and leave_out is not LeaveOut.SOURCE:
            label = label.whole
        named.append(label or " ".join((record.passage or record.answer).split()))
    merged = Label.merged(one for one in named if isinstance(one, Label))
    # Of a question of which nothing is known nothing can be left out.
    found = (merged[one] if isinstance(one, Label) else one for one in named if one)
    return list(Counter(found).values())


# Documents retrieved to find a question's source among them, and to fill up a left-out case.
WIDE = 50
WIDEST = 1600
_SHOWN = 3


class SourceSearch:
    """Where the answers of questions stand among the documents that a chain finds.

    Args:
        chain: finds the documents.
        key: of their metadata.
        leave_out: what goes in a left-out case.

    Attributes:
        served: the most documents that the chain found for a question, as it serves them.
        sources: by question, where it is known.
        unknown: questions of which it is not, although the chain found documents.
        unmatched: by question, what is wrong with the source that it names.
        rows: of the run, for the questions whose source is known.
        unit: by question, the source whose evidence it is.
    """

    def __init__(self, chain: ServedChain, key: str, leave_out: LeaveOut) -> None:
        self._chain, self._key, self._leave_out = chain, key, leave_out
        self._labels: dict[str, list[Label]] = defaultdict(list)
        self._spelled: dict[str, None] = {}
        self._add_labels(chain.labels)
        self._wide: dict[str, list[Document]] = {}
        self.served = 0
        self.sources: dict[str, Source] = {}
        self.unknown: set[str] = set()
        self.unmatched: dict[str, UnmatchedSourceError] = {}
        self.rows: list[SourceRow] = []
        self.unit: dict[str, str] = {}

    def find(self, records: Mapping[str, QuestionRecord]) -> None:
        """Ask the chain every question.

        Args:
            records: by id.

        Raises:
            InputError: the chain fails on the first question, or the sources that the
                questions name are in none of the documents that it finds.
        """
        for name, record in records.items():
            self._ask(name, record.question)
        for name in self._wide:
            self._find(records[name])
        self._require_one_match(records)
        if self._leave_out is not LeaveOut.SOURCE:
            self._add_pages()
        self.rows = [
            source_row(records[name], one, self._wide[name]) for name, one in self.sources.items()
        ]
        named = {row.question_id: row.source for row in self.rows}
        self.unit = {name: named[first] for name, first in units(self._parts()).items()}

    def _ask(self, name: str, question: str) -> None:
        try:
            served = self._chain.documents(question)
            wide = self._chain.documents(question, max(WIDE, 4 * len(served)))
        except KnowgateError as error:
            if not self._wide:
                raise InputError(
                    f"asked the first question, it failed: {error}", where=self._chain.name
                ) from error
            # Its cases become rows with an error.
            return
        self.served = max(self.served, len(served))
        self._keep(name, wide)

    def _keep(self, name: str, wide: list[Document]) -> None:
        self._wide[name] = wide
        self._add_labels(one.metadata.get(self._key) for one in wide)

    def _add_labels(self, labels: Iterable[object]) -> None:
        for one in labels:
            label = Label.of(one)
            if label is not None and str(one) not in self._spelled:
                self._spelled[str(one)] = None
                self._labels[label.page[-1]].append(label)

    def _carried(self, named: Label) -> list[Label]:
        """Return the labels of documents that overlap one that a question names."""
        return [one for one in self._labels.get(named.page[-1], ()) if one.overlaps(named)]

    def _find(self, record: QuestionRecord) -> None:
        name, named = record.question_id, Label.of(record.source)
        if named is not None and self._spelled and not self._carried(named):
            # What is asked for may be far from the question: a retrieval miss, not a wrong label.
            # It cannot be asked for so many.
            with suppress(KnowgateError):
                wide = self._chain.documents(record.question, WIDEST)
                self._keep(name, max(self._wide[name], wide, key=len))
            if not self._carried(named):
                source, there = record.source or "", list(self._spelled)
                close = get_close_matches(source, there, n=_SHOWN, cutoff=0.5) or there[:_SHOWN]
                nearest = ", ".join(map(repr, close))
                self.unmatched[name] = UnmatchedSourceError(
                    f"the source {source!r} is that of no document (nearest: {nearest})"
                )
                return
        exists = named is not None and bool(self._carried(named))
        known = find_source(record, self._wide[name], self._key, exists=exists)
        if known is None:
            self.unknown.add(name)
        else:
            self.sources[name] = known

    def _require_one_match(self, records: Mapping[str, QuestionRecord]) -> None:
        named = [name for name in self._wide if records[name].source]
        if named and self.sources.keys().isdisjoint(named):
            there = ", ".join(list(self._spelled)[:_SHOWN]) or "in none at all"
            raise InputError(
                f"the questions name sources such as {records[named[0]].source!r}, and no document "
                f"that was found has it in its metadata {self._key!r} (there: {there})",
                where=self._chain.name,
                hint="name the field that holds the source with --source-key",
            )

    def _add_pages(self) -> None:
        """Let the whole page go with each source, or all pages on its topic."""
        encoder = BiEncoderScorer() if self._leave_out is LeaveOut.TOPIC else None
        for name, one in self.sources.items():
            wide = self._wide[name]
            pages = {page_of(document, self._key) for document in wide if one.leaves_out(document)}
            named = Label.of(one.label)
            if named is not None:
                pages.add(named.whole)
            if encoder is not None:
                own = [document.page_content for document in wide if one.answers(document)]
                if not (one.passage or one.answer):
                    # Nobody knows which chunk of the source: the nearest one.
                    own = own[:1]
                near = on_topic(own, [document.page_content for document in wide], encoder)
                pages |= {page_of(document, self._key) for document in compress(wide, near)}
            self.sources[name] = replace(one, pages=frozenset(pages))

    def _parts(self) -> dict[str, set[object]]:
        """What is left out for each question: labels, and chunks that were found."""
        labels = {name: self._left_out_labels(one) for name, one in self.sources.items()}
        merged = Label.merged(one for several in labels.values() for one in several)
        return {
            name: {
                one.label or " ".join((*one.passage, *one.answer)),
                *(merged[label] for label in labels[name]),
                *(chunk_id(d, self._key) for d in self._wide[name] if one.leaves_out(d)),
            }
            for name, one in self.sources.items()
        }

    def _left_out_labels(self, one: Source) -> frozenset[Label]:
        named = Label.of(one.label)
        if one.pages or named is None:
            return one.pages
        told = all(label.kind == named.kind for label in self._carried(named))
        return frozenset({named if told else named.whole})


class AnswerElsewhere(Stored):
    """A passage that holds the whole answer of a question whose own passage is left out."""

    question_id: str
    passage_id: str


# A question may have several rows.
_ELSEWHERE = TableSpec("left_out_check", AnswerElsewhere, "question_id", whole=True)


def left_out_check(
    questions: Sequence[QuestionRecord], knowledge_base: KnowledgeBase
) -> list[AnswerElsewhere]:
    """Find passages besides the question's own that contain its whole answer word for word.

    A left-out case whose answer stands elsewhere is none: a system that answers it is right.
    Answers of fewer than four words are not looked for, nor what is said in other words.
    """
    texts = {
        name: f" {' '.join(words_of(text))} " for name, text in knowledge_base.passages.items()
    }
    holders: dict[str, list[str]] = defaultdict(list)
    for name, text in texts.items():
        for word in dict.fromkeys(text.split()):
            holders[word].append(name)
    found: list[AnswerElsewhere] = []
    for record in questions:
        own, answer = knowledge_base.passage_of[record.question_id], words_of(record.answer)
        if len(answer) < FEWEST_WORDS:
            continue
        sought = f" {' '.join(answer)} "
        # Passages in which the whole answer stands have its rarest word.
        rarest = min((holders.get(word, []) for word in answer), key=len)
        found += [
            AnswerElsewhere(question_id=record.question_id, passage_id=name)
            for name in rarest
            if name != own and sought in texts[name]
        ]
    return found


def note_left_out_check(
    folder: Path, asked: Sequence[tuple[Sequence[QuestionRecord], KnowledgeBase]]
) -> None:
    """Write which other passages may answer a question whose own was taken out.

    Nothing is written where the file is there already, or where nothing was taken out of a known
    knowledge base.

    Args:
        folder: of the run.
        asked: by knowledge base, the questions whose passage was taken out.
    """
    if _ELSEWHERE.path(folder).exists() or not any(records for records, _ in asked):
        return
    _ELSEWHERE.write(folder, (one for of_base in asked for one in left_out_check(*of_base)))


def read_left_out_check(folder: Path) -> tuple[AnswerElsewhere, ...] | None:
    """Read what the check found, in the order of the file; None where it was not made.

    Raises:
        InputError: a line of the file is broken; names file and line.
    """
    path = _ELSEWHERE.path(folder)
    if not path.exists():
        return None
    hint = "remove the file, or make the check again"
    return tuple(one for _, one in read_models(path, AnswerElsewhere, hint=hint, links=False))
