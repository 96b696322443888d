"""What measures a case: a retriever, and the guard that judges what it finds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from langchain_core.documents import Document

from ....adapters.langchain import RetrievalError
from ....guard import Guard
from ....guard.contracts import RelevanceScorer
from ....guard.engine import BiEncoderScorer
from ....guard.errors import InputError, KnowgateError, SignalError, SignalValueError
from ....guard.fingerprint import default_aggregator
from ....guard.signals.relevance import load_scorer
from ....guard.signals.relevance.registry import DEFAULT_SCORER
from ...data.embedding import Encoder
from ...data.questions import KnowledgeBase, QuestionRecord
from ...run import RowError, Run
from ...run.measured_run import MeasuredRun, measuring_guard
from ...run.questions import CaseKind, MeasuredRow
from ...run.replies import StoredPassage
from ...systems.leaving_out import (
    WIDE,
    WIDEST,
    Source,
    SourceSearch,
    chunk_id,
    passages_together,
)
from ...systems.plan import Case
from ...systems.retrieval import PassageIndex
from ...systems.served import ServedChain, chain_over
from ..parts import System
from ._settings import MeasureSettings
from .signals import SERVED


@dataclass(frozen=True, slots=True)
class MeasuredCase(Case):
    """A case, with the question that it was made of.

    Attributes:
        record: the question.
        knowledge_base: that is searched; None where a chain has its own.
        left_out: ids of the passages in it that a left-out case lacks.
        unit: what it is evidence about, where that is more than its passage.
    """

    record: QuestionRecord
    knowledge_base: KnowledgeBase | None = None
    left_out: frozenset[str] = frozenset()
    unit: str = ""

    @classmethod
    def of_record(
        cls, record: QuestionRecord, kind: CaseKind, base: KnowledgeBase | None = None
    ) -> MeasuredCase:
        """Make a case of a question, whose passage is in the knowledge base if that has any."""
        passage = "" if base is None else base.passage_of.get(record.question_id, "")
        return cls(**asdict(Case.of(record, kind, passage)), record=record, knowledge_base=base)

    def row(self, model: type[MeasuredRow] = MeasuredRow, **measured: Any) -> MeasuredRow:
        """Make the row of the case; what is not measured is empty."""
        known: dict[str, Any] = {"retrieved": (), "scores": (), "raw_relevance": None}
        named = {name: getattr(self, name) for name in ("case_id", "question_id", "kind")}
        return model(**named, **{"retrieval_miss": False, "error": None, **known, **measured})


# What a retriever found for a case: the ids of the passages, best first; the passages (texts or
# documents) as the guard sees them; and whether an in-KB case lacks its own among them.
Found = tuple[tuple[str, ...], tuple[object, ...], bool]


class Instruments(System):
    """What measures: a scorer of relevance, and the encoder of the retriever.

    Args:
        scorer: called through the guard itself.
        encoder: of questions and passages; None where something else retrieves.

    Attributes:
        cases: by id; only in the worker of a Ray cluster.
        usual_aggregator: of the guard that the scorer is from; empty for the scorer's own.
    """

    settings: MeasureSettings
    cases: Mapping[str, MeasuredCase]
    usual_aggregator: str = ""

    def __init__(self, scorer: RelevanceScorer, encoder: Encoder | None) -> None:
        super().__init__("measure")
        if encoder is not None:
            _require_text(scorer)
        self.scorer, self.encoder = scorer, encoder
        self._index: PassageIndex | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Other processes make their own index and guard.
        state = {**super().__getstate__(), "_index": None}
        state.pop("measuring", None)
        return state

    @property
    def aggregator(self) -> str:
        """How passage scores become one value: as asked for, of the chain's guard, or usual."""
        chosen = self.settings.aggregator or self.usual_aggregator
        return chosen or default_aggregator(self.scorer.fingerprint.kind)

    def located(self, cases: Sequence[MeasuredCase]) -> list[MeasuredCase]:
        """Find what is left out for each question, and which questions are one unit by that.

        Raises:
            InputError: all questions are on one page or topic, so that nothing is left.
        """
        base = next(_base(one) for one in cases if one.passage_id)
        # All of the file: the pages of passages whose questions are not asked count, too.
        questions, leave_out = self.settings.questions, self.settings.leave_out
        left_out, unit = passages_together(QuestionRecord.read(questions), base, leave_out)
        if all(len(gone) == len(base.passages) for gone in left_out.values()):
            raise InputError(
                f"all questions are on one {leave_out}",
                where=str(questions),
                hint="leaving one out needs at least two: leave out less, or name other questions",
            )
        return [
            replace(one, left_out=left_out[own], unit=unit[own]) if (own := one.passage_id) else one
            for one in cases
        ]

    def described(self, cases: Sequence[MeasuredCase]) -> dict[str, Any]:
        """Return what the manifest says about retrieval."""
        assert self.encoder is not None
        return {
            "retriever": self.encoder.fingerprint,
            "retrieval": "basic_rag",
            "top_k": self.settings.top_k,
            "passage": _base(cases[0]).kind.value,
            "leave_out": self.settings.leave_out,
        }

    def store(self, run: Run) -> Mapping[str, str]:
        """Store where the answers are, if that had to be found; returned by question."""
        return {}

    def found(self, case: MeasuredCase) -> Found:
        """Retrieve for a case, without its own passage where that is left out.

        Raises:
            SignalError: the retriever failed.
        """
        assert self.encoder is not None
        base, k = _base(case), self.settings.top_k
        gone = case.left_out if case.kind.leaves_out else frozenset()
        try:
            self._index = self._index or PassageIndex(base, self.encoder)
            (vector,) = self.encoder.embed([case.question])
            ids = tuple(self._index.nearest(vector, k, without=gone))
        except Exception as error:
            # One bad question is a row, not the end of the run. The message of a foreign error
            # may quote the question: only its type is kept.
            raise SignalError("retrieval", f"raised {type(error).__name__}") from error
        missed = case.kind is CaseKind.IN_KB and case.passage_id not in ids
        return ids, tuple(base.passages[name] for name in ids), missed

    def measured(self, case: MeasuredCase, model: type[MeasuredRow] = MeasuredRow) -> MeasuredRow:
        """Measure one case; a failure keeps what was known before it."""
        known: dict[str, Any] = {}
        # Of a scorer that counts its calls of a language model.
        before = getattr(self.scorer, "calls", None)
        try:
            ids, passages, known["retrieval_miss"] = self.found(case)
            if case.kind is CaseKind.ECHO:
                # The question stands in front, in the place of the last passage.
                ids, passages = (case.case_id, *ids[:-1]), (case.question, *passages[:-1])
            known["retrieved"], began = ids, time.perf_counter()
            decision = self.measuring.decide(case.question, passages)
            seconds = time.perf_counter() - began
            known["scores"] = decision.scores
            if decision.raw_relevance is None:
                raise SignalValueError("relevance", "the aggregate of the scores is not finite")
            known |= {"raw_relevance": decision.raw_relevance, "milliseconds": 1e3 * seconds}
        except KnowgateError as error:
            known["error"] = RowError.of(error)
        if isinstance(before, int):
            known["calls"] = getattr(self.scorer, "calls", before) - before
        return case.row(model, **known)

    def answer(self, names: Sequence[str], system: object) -> list[MeasuredRow]:
        """Measure cases by their ids, in the worker of a Ray cluster."""
        return [self.measured(self.cases[name]) for name in names]

    @cached_property
    def measuring(self) -> Guard:
        """The guard that measures: the same that serves, but failures become rows."""
        return measuring_guard(self.scorer, self.aggregator, on_error="raise")

    @staticmethod
    def of(settings: MeasureSettings, chain: ServedChain | None = None) -> Instruments:
        """Make what measures as the settings say: by default with the scorer of the chain's guard.

        Args:
            settings: of the run.
            chain: None for the one that the settings name, if any.

        Raises:
            InputError: chain, documents or scorer cannot be loaded.
        """
        if chain is None and settings.chain is not None:
            chain = ServedChain.load(settings.chain)
        guard = None if chain is None or settings.scorer is not None else chain.guard
        own, named = guard and guard.scorer, settings.scorer or DEFAULT_SCORER
        (found,) = instruments_of(settings, [own or load_scorer(named)], chain)
        found.source = named
        if guard is not None and own is not None:
            found.usual_aggregator = guard.policy.aggregator
        return found


class ServedInstruments(Instruments):
    """What measures through a chain as it is served.

    Args:
        scorer: called through the guard itself.
        chain: finds the documents.

    Attributes:
        chain: as given.
        search: for the sources of the questions; made by `located`.
    """

    search: SourceSearch

    def __init__(self, scorer: RelevanceScorer, chain: ServedChain) -> None:
        super().__init__(scorer, encoder=None)
        self.chain = chain

    def described(self, cases: Sequence[MeasuredCase]) -> dict[str, Any]:
        """Return what the manifest says about retrieval."""
        return {
            "retrieval": SERVED,
            "top_k": max(1, self.search.served),
            "passage": "chunk",
            "chain": self.chain.description,
            **self.settings.model_dump(include={"source_key", "leave_out"}),
            **self.chain.details,
        }

    def located(self, cases: Sequence[MeasuredCase]) -> list[MeasuredCase]:
        """Ask the chain every question, to learn where its answer is and how much is served.

        Returns:
            The cases that can be measured: one of a question whose source is not known.

        Raises:
            InputError: see `SourceSearch.find`.
        """
        self.search = SourceSearch(self.chain, self.settings.source_key, self.settings.leave_out)
        known = [case.record for case in cases if case.kind is not CaseKind.UNANSWERABLE]
        self.search.find({record.question_id: record for record in known})
        asked = {}
        for case in cases:
            unknown = case.question_id in self.search.unknown
            one = MeasuredCase.of_record(case.record, CaseKind.LIVE) if unknown else case
            asked[one.case_id] = replace(one, unit=self.search.unit.get(case.question_id, ""))
        return list(asked.values())

    def store(self, run: Run) -> Mapping[str, str]:
        """Store where the answers are; returned by question."""
        run[MeasuredRun.SOURCES].extend(self.search.rows)
        # Read before the first case: a damaged file is an error of the run, not of its rows.
        run[MeasuredRun.PASSAGES].rows()
        return {one.question_id: one.source for one in run[MeasuredRun.SOURCES].rows()}

    def found(self, case: MeasuredCase) -> Found:
        """Retrieve for a case; where the source is left out, as many documents as are served.

        Raises:
            RetrievalError: the chain failed.
            UnmatchedSourceError: no document has the source that the question names.
        """
        source = self.search.sources.get(case.question_id)
        sought = case.kind is not CaseKind.UNANSWERABLE
        if source is None and sought and case.question_id not in self.search.unknown:
            raise self.search.unmatched.get(case.question_id) or RetrievalError(
                "the chain failed when it was asked where the answer is"
            )
        chosen = self.chain.documents(case.question)
        missed = False
        if source is not None and case.kind is CaseKind.IN_KB:
            missed = not any(map(source.answers, chosen))
        if source is not None and case.kind.leaves_out:
            chosen = self._without(source, case.question, chosen)
        assert self.run is not None
        key = self.settings.source_key
        # The texts that were judged are kept with the run.
        self.run[MeasuredRun.PASSAGES].extend(
            StoredPassage(
                passage_id=name,
                text=one.page_content,
                source=str(one.metadata[key]) if key in one.metadata else None,
            )
            for name, one in {chunk_id(one, key): one for one in chosen}.items()
        )
        return tuple(chunk_id(one, key) for one in chosen), tuple(chosen), missed

    def _without(self, source: Source, question: str, served: list[Document]) -> list[Document]:
        """Return as many documents as are served, none of them of the source."""
        wide, k = served, max(WIDE, 4 * len(served))
        while any(map(source.leaves_out, served)):
            more = self.chain.documents(question, k)
            grew, wide = len(more) > len(wide), max(more, wide, key=len)
            kept = [one for one in wide if not source.leaves_out(one)][: len(served)]
            if len(kept) == len(served) or len(wide) >= WIDEST or not grew:
                return kept
            k = 2 * len(wide)
        return served


def _base(case: MeasuredCase) -> KnowledgeBase:
    assert case.knowledge_base is not None
    return case.knowledge_base


def _require_text(scorer: object) -> None:
    """Reject a scorer that reads what no passage has that was only found by embeddings.

    Raises:
        InputError: it reads metadata.
    """
    if getattr(scorer, "reads_metadata", False):
        raise InputError(
            "reads a number that your retriever writes into the metadata of passages",
            where="--scorer",
            hint="measure through your chain: --chain MODULE:ATTRIBUTE",
        )


def instruments_of(
    settings: MeasureSettings, scorers: Sequence[RelevanceScorer], chain: ServedChain | None
) -> list[Instruments]:
    """Make what measures with each scorer, over one retrieval for all.

    Without a chain, passages are found by embedding: by a single scorer where it can.

    Args:
        settings: of the run.
        scorers: at least one.
        chain: None for the documents of the settings, or the passages of the questions.

    Raises:
        InputError: a scorer reads metadata, or the documents cannot be read.
    """
    if chain is None:
        # Before documents are cut and embedded, which takes long.
        for one in scorers:
            _require_text(one)
        own = scorers[0] if len(scorers) == 1 else None
        encoder = own if isinstance(own, BiEncoderScorer) else BiEncoderScorer()
        if settings.documents is None:
            return [Instruments(one, encoder) for one in scorers]
        names = {"chunk_size", "chunk_overlap", "top_k", "source_key"}
        chain = chain_over(settings.documents, encoder, **settings.model_dump(include=names))
    return [ServedInstruments(one, chain) for one in scorers]
