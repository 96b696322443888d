"""The first half of the demo: a help desk over a city's service articles."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore

from ...adapters.langchain import GuardedRAG
from ...calibration import Interval
from ...calibration.risk import Leak
from ...guard import Guard, GuardOptions
from ...guard.contracts import RelevanceScorer
from ...guard.engine import BiEncoderScorer
from ...guard.policy import Policy
from ..data import PassageKind, QuestionRecord
from ..policies import CalibrationSet, calibrate_records, write_calibrated
from ..run import OnProgress
from ..suites import RunOptions, run_suite, write_report
from ..suites.ookb import MEASURE, Instruments
from ..testbed import sample_knowledge_base_path

# After closing punctuation and a space, before a capital letter or a digit.
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'“(]?[A-Z0-9])")


class ScorerEmbeddings(Embeddings):
    """LangChain embeddings from the bi-encoder that also judges relevance."""

    def __init__(self, encoder: BiEncoderScorer) -> None:
        self._encoder = encoder

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Unit-length embeddings of `texts`."""
        vectors: list[list[float]] = self._encoder.embed(texts).tolist() if texts else []
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """The unit-length embedding of `text`."""
        return self.embed_documents([text])[0]


def extractive_reader(encoder: BiEncoderScorer) -> RunnableLambda[Mapping[str, Any], str]:
    """A runnable that answers with the sentence of the context nearest to the question.

    Its input has `question` and `context`, as `GuardedRAG` gives it.
    """

    def read(given: Mapping[str, Any]) -> str:
        lines = split_sentences(str(given["context"]))
        # A title answers nothing.
        sentences = [one for one in lines if one.endswith((".", "!", "?"))] or lines
        vectors = encoder.embed([str(given["question"]), *sentences])
        return sentences[int(np.argmax(vectors[1:] @ vectors[0]))]

    return RunnableLambda(read)


def split_sentences(text: str) -> list[str]:
    """Sentences of plain English prose; the whole text where no end is found.

    Example:
        >>> split_sentences("It opens at 9. Dogs stay out!")
        ['It opens at 9.', 'Dogs stay out!']
    """
    found = [part.strip() for line in text.splitlines() for part in _SENTENCE_END.split(line)]
    return [part for part in found if part] or [text]


RISK, DELTA = 0.2, 0.1
# Calibrated together; the one that abstains least serves.
SCORERS = ("sufficiency", "late_interaction")

# Articles that the live help desk does not have, so that their questions must be abstained from.
MISSING_ARTICLES = 5
LIVE_QUESTIONS = 12


@dataclass(frozen=True, slots=True)
class LiveAnswer:
    """One question put to the live chain.

    Attributes:
        question: as asked.
        in_kb: whether the help desk has the article that answers it.
        route: where the guard sent it.
        relevance: calibrated probability that the retrieved articles suffice.
        reply: what the user gets.
        unguarded: what the same chain says without the guard.
    """

    question: str
    in_kb: bool
    route: str
    relevance: float
    reply: str
    unguarded: str

    def texts(self) -> tuple[str, str, str]:
        """Return what the user is shown: the decision, and the reply with and without guard."""
        there = "in the knowledge base" if self.in_kb else "missing from the knowledge base"
        return (
            f"(its article is {there})\n  relevance {self.relevance:.2f} → {self.route}",
            f"  with the guard:    {self.reply}",
            f"  without the guard: {self.unguarded}\n",
        )


@dataclass(frozen=True, slots=True)
class CityDemo:
    """What the first half of the demo leaves.

    Attributes:
        policy: the calibrated policy.
        scorer: name of the chosen scorer.
        false_abstention: share of the answerable questions that the policy abstains from.
        policy_path: its file.
        report: the report page.
        answers: the live questions.
    """

    policy: Policy
    scorer: str
    false_abstention: Interval
    policy_path: Path
    report: Path
    answers: tuple[LiveAnswer, ...]


def measure_city(
    out: Path,
    encoder: BiEncoderScorer,
    scorers: Mapping[str, RelevanceScorer],
    *,
    on_progress: OnProgress | None = None,
) -> CityDemo:
    """Measure, calibrate and report, without asking live questions.

    Args:
        out: folder for a run of each scorer, `policy.json` and the report.
        encoder: retrieves.
        scorers: judge relevance; the one that abstains least serves.
        on_progress: called after each measured case.
    """
    policy_path = out / "policy.json"
    settings = MEASURE.settings(questions=sample_knowledge_base_path(), passage=PassageKind.TITLED)
    for name, scorer in scorers.items():
        run_suite(
            MEASURE,
            settings,
            out / name,
            [Instruments(scorer, encoder)],
            RunOptions(on_progress=on_progress),
        )
    calibrated = calibrate_records(
        [CalibrationSet.of_run(out / name) for name in scorers],
        Leak(RISK),
        delta=DELTA,
        counted=True,
    )
    write_calibrated(calibrated, policy_path)
    chosen = calibrated.measured.name
    report = write_report(out / chosen).html
    return CityDemo(calibrated.policy, chosen, calibrated.false_abstention, policy_path, report, ())


def run_city_demo(
    out: Path,
    encoder: BiEncoderScorer,
    scorers: Mapping[str, RelevanceScorer],
    *,
    on_progress: OnProgress | None = None,
) -> CityDemo:
    """Measure, calibrate, report, and answer live questions.

    Args:
        out, encoder, scorers, on_progress: as for `measure_city`; the encoder also picks the
            sentences to quote.
    """
    found = measure_city(out, encoder, scorers, on_progress=on_progress)
    scorer = scorers[found.scorer]
    # No deadlines: how busy the machine is must not change what the demo shows.
    options = GuardOptions(deadlines={"relevance": None})
    guard = Guard.load(found.policy_path, scorer=scorer, options=options, metrics=False)
    unguarded = Guard(
        guard.policy, scorer=scorer, options=replace(options, mode="shadow"), metrics=False
    )
    return replace(found, answers=live_answers(guard, unguarded, encoder))


def live_answers(guard: Guard, shadow: Guard, encoder: BiEncoderScorer) -> tuple[LiveAnswer, ...]:
    """Ask a help desk that lacks some articles; half of the questions are about those."""
    records = QuestionRecord.read(sample_knowledge_base_path())
    articles = list(dict.fromkeys(record.source for record in records))
    missing = set(articles[:: len(articles) // MISSING_ARTICLES][:MISSING_ARTICLES])
    there = [r for r in records if r.source not in missing]
    store = article_store(encoder, there)
    chain, unguarded = (help_desk(one, encoder, store) for one in (guard, shadow))
    gone = [r for r in records if r.source in missing]
    half = LIVE_QUESTIONS // 2
    asked = [*_spread(there, half), *_spread(gone, half)]
    questions: list[str | Mapping[str, Any]] = [record.question for record in asked]
    return tuple(
        LiveAnswer(
            question=record.question,
            in_kb=record.source not in missing,
            route=guarded.decision.route.value,
            relevance=guarded.decision.relevance or 0.0,
            reply=guarded.answer,
            unguarded=free.answer,
        )
        for record, guarded, free in zip(
            asked, chain.batch(questions), unguarded.batch(questions), strict=True
        )
    )


def article_store(
    encoder: BiEncoderScorer, records: Sequence[QuestionRecord]
) -> InMemoryVectorStore:
    """Return a store of the articles of `records`, each below its title."""
    store = InMemoryVectorStore(ScorerEmbeddings(encoder))
    texts = dict.fromkeys((record.source or "", record.passage or "") for record in records)
    store.add_documents(
        [Document(f"{title}\n{text}", metadata={"source": title}) for title, text in texts]
    )
    return store


def help_desk(guard: Guard, encoder: BiEncoderScorer, store: InMemoryVectorStore) -> GuardedRAG:
    """Return a RAG chain over the articles in `store`, as a user would build it."""
    return GuardedRAG(
        guard=guard,
        retriever=store.as_retriever(search_kwargs={"k": 5}),
        with_context=extractive_reader(encoder),
    )


def _spread(records: Sequence[QuestionRecord], count: int) -> list[QuestionRecord]:
    """`count` records at even distances, so that they come from different articles."""
    return [records[i * len(records) // count] for i in range(count)]
