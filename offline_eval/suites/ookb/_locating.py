"""Find the sources of all questions among the documents of a chain, and what is left out.

questions ─► documents of each ─► source (or none: unmatched) ─► pages, topic ─► units of evidence
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from langchain_core.documents import Document

from ....guard.errors import InputError, KnowgateError
from ...data import Label, QuestionRecord, units
from ...run import FoundBy, LeaveOut, RowError, SourceRow
from ...systems import ServedChain
from ._sources import Source, chunk_id, find_source, page_of, source_row
from ._topics import Topics

# Documents retrieved to find a question's source among them, and to fill up a left-out case.
WIDE = 50
WIDEST = 1600
_SHOWN = 3


class UnmatchedSourceError(KnowgateError):
    """A question names a source that no document has."""


assert UnmatchedSourceError.__name__ == RowError.UNMATCHED_SOURCE


class SourceSearch:
    """Where the answers of questions stand among the documents that a chain finds.

    Args:
        chain: finds the documents.
        key: of their metadata.
        leave_out: what goes in a left-out case.
        labels: of all documents, where they are known.

    Attributes:
        served: the most documents that the chain found for a question, as it serves them.
        sources: by question; none of one that the chain failed on or that is unmatched.
        unmatched: by question, what is wrong with the source that it names.
        rows: of the run, for the questions whose source is known.
        unit: by question, the source whose evidence it is.
    """

    def __init__(
        self, chain: ServedChain, key: str, leave_out: LeaveOut, labels: Iterable[str] = ()
    ) -> None:
        self._chain, self._key, self._leave_out = chain, key, leave_out
        self._labels: dict[str, list[Label]] = defaultdict(list)
        self._spelled: dict[str, None] = {}
        self._add_labels(labels)
        self._wide: dict[str, list[Document]] = {}
        self.served = 0
        self.sources: dict[str, Source] = {}
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
        found = {name: one for name, one in self.sources.items() if _known(one)}
        self.rows = [
            source_row(records[name], one, self._wide[name]) for name, one in found.items()
        ]
        named = {row.question_id: row.source for row in self.rows}
        self.unit = {name: named[first] for name, first in units(self._parts(found)).items()}

    def _ask(self, name: str, question: str) -> None:
        try:
            served = self._chain.documents(question)
            wide = self._chain.documents(question, max(WIDE, 4 * len(served)))
        except KnowgateError as error:
            if not self._wide:
                raise InputError(
                    f"asked the first question, it failed: {error}", where=self._chain.name
                ) from error
            return  # its cases become rows with an error
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
            self._look_further(record)
            if not self._carried(named):
                self.unmatched[name] = self._unmatched_source(record.source or "")
                return
        exists = named is not None and bool(self._carried(named))
        self.sources[name] = find_source(record, self._wide[name], self._key, exists=exists)

    def _look_further(self, record: QuestionRecord) -> None:
        try:
            wide = self._chain.documents(record.question, WIDEST)
        except KnowgateError:
            return  # it cannot be asked for so many
        self._keep(record.question_id, max(self._wide[record.question_id], wide, key=len))

    def _unmatched_source(self, named: str) -> UnmatchedSourceError:
        there = list(self._spelled)
        nearest = get_close_matches(named, there, n=_SHOWN, cutoff=0.5) or there[:_SHOWN]
        return UnmatchedSourceError(
            f"the source {named!r} is that of no document (nearest: "
            f"{', '.join(map(repr, nearest))})"
        )

    def _require_one_match(self, records: Mapping[str, QuestionRecord]) -> None:
        named = [name for name in self._wide if records[name].source]
        known = [name for name in named if _known(self.sources.get(name))]
        if named and not known:
            there = ", ".join(list(self._spelled)[:_SHOWN]) or "in none at all"
            raise InputError(
                f"the questions name sources such as {records[named[0]].source!r}, and no document "
                f"that was found has it in its metadata {self._key!r} (there: {there})",
                where=self._chain.name,
                hint="name the field that holds the source with --source-key",
            )

    def _add_pages(self) -> None:
        """Let the whole page go with each source, or all pages on its topic."""
        topics = Topics() if self._leave_out is LeaveOut.TOPIC else None
        for name, one in self.sources.items():
            if not _known(one):
                continue
            wide = self._wide[name]
            pages = {page_of(document, self._key) for document in wide if one.leaves_out(document)}
            named = Label.of(one.label)
            if named is not None:
                pages.add(named.whole)
            if topics is not None:
                pages |= self._on_topic(topics, one, wide)
            self.sources[name] = replace(one, pages=frozenset(pages))

    def _on_topic(self, topics: Topics, one: Source, wide: Sequence[Document]) -> set[Label]:
        own = [document.page_content for document in wide if one.answers(document)]
        if not (one.passage or one.answer):
            own = own[:1]  # nobody knows which chunk of the source: the nearest to the question
        near = topics.on_topic(own, [document.page_content for document in wide])
        on_topic = (document for document, is_near in zip(wide, near, strict=True) if is_near)
        return {page_of(document, self._key) for document in on_topic}

    def _parts(self, sources: Mapping[str, Source]) -> dict[str, set[object]]:
        """What is left out for each question: labels, and chunks that were found."""
        labels = {name: self._left_out_labels(one) for name, one in sources.items()}
        merged = Label.merged(one for several in labels.values() for one in several)
        return {
            name: {
                one.label or " ".join((*one.passage, *one.answer)),
                *(merged[label] for label in labels[name]),
                *(chunk_id(d, self._key) for d in self._wide[name] if one.leaves_out(d)),
            }
            for name, one in sources.items()
        }

    def _left_out_labels(self, one: Source) -> frozenset[Label]:
        named = Label.of(one.label)
        if one.pages or named is None:
            return one.pages
        told = all(label.kind == named.kind for label in self._carried(named))
        return frozenset({named if told else named.whole})


def _known(source: Source | None) -> bool:
    return source is not None and source.found_by is not FoundBy.UNKNOWN
