"""The demo with a language model: a help desk whose articles the model reads.

Every other article is missing from the help desk, and all questions are asked. The guard of a
question was calibrated on questions about other articles.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
from langchain_core.vectorstores import InMemoryVectorStore
from numpy.typing import NDArray
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from ...calibration import Interval
from ...calibration.risk import Leak
from ...guard import Guard, GuardOptions
from ...guard.abstention import AbstentionDetector
from ...guard.contracts import LanguageModel, RelevanceScorer
from ...guard.decision import Decision, Route
from ...guard.engine import BiEncoderScorer
from ...guard.matching import canonical_answer
from ...guard.prompts import Prompt
from ..data import QuestionRecord
from ..policies import CalibrationSet, calibrate_records
from ..report import Case, CaseLine, Cases, Cell, Line, Prose, Section, Table
from ..run import OnProgress, Progress
from ..testbed import sample_knowledge_base_path
from ._city_demo import DELTA, RISK, article_store

Outcome = Literal["right", "wrong", "abstained"]
OUTCOMES: tuple[Outcome, ...] = ("right", "wrong", "abstained")
ABSTENTION = "I do not know: the help desk has no article on that."

# Articles that the model reads per question.
_READ = 2
# Prompts that the model reads at one time.
_AT_ONCE = 16
_SHOWN_PER_KIND = 2
_WORD = re.compile(r"\d[\d.:,]*|\w+")
# Words count as the same from this many letters on: "costs" and "cost", "empties" and "emptied".
_STEM = 5


@dataclass(frozen=True, slots=True)
class DeskReply:
    """What a user of the help desk gets.

    Attributes:
        text: the reply.
        outcome: what it is worth.
    """

    text: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class DeskAnswer:
    """One question put to the help desk with the guard and without it.

    Attributes:
        record: the question.
        in_kb: whether the help desk has the article that answers it.
        decision: of the guard.
        guarded: the reply behind the guard.
        unguarded: what the model says to everything that was retrieved.
    """

    record: QuestionRecord
    in_kb: bool
    decision: Decision
    guarded: DeskReply
    unguarded: DeskReply

    @property
    def kind(self) -> tuple[bool, Outcome, Outcome]:
        """What happened: whether the article is there, and the outcomes with and without guard."""
        return self.in_kb, self.guarded.outcome, self.unguarded.outcome


@dataclass(frozen=True, slots=True)
class ModelDemo:
    """What the help desk said to all questions.

    Attributes:
        model: its name.
        answers: in the order of the questions.
        seconds: that the model took.
    """

    model: str
    answers: tuple[DeskAnswer, ...]
    seconds: float

    def rows(self) -> list[tuple[str, list[DeskAnswer]]]:
        """Return the answers by whether the article is there, and all."""
        return [
            ("article there", [one for one in self.answers if one.in_kb]),
            ("article missing", [one for one in self.answers if not one.in_kb]),
            ("all questions", list(self.answers)),
        ]

    @staticmethod
    def counts(answers: Sequence[DeskAnswer], *, guarded: bool) -> list[Interval]:
        """Return the shares of the outcomes among some answers, in the order of `OUTCOMES`.

        Their intervals draw whole articles: questions on one article are one unit.
        """
        found = [(one.guarded if guarded else one.unguarded).outcome for one in answers]
        groups = [one.record.source or "" for one in answers]
        rows = [[float(outcome == name) for outcome in found] for name in OUTCOMES]
        return [Interval.bootstrap(_share, row, row, groups=groups) for row in rows]

    def fewer_wrong(self) -> Interval:
        """Return the share of wrong replies without the guard minus that with it."""
        return Interval.paired_difference(
            [one.unguarded.outcome == "wrong" for one in self.answers],
            [one.guarded.outcome == "wrong" for one in self.answers],
            groups=[one.record.source or "" for one in self.answers],
        )

    def examples(self) -> list[DeskAnswer]:
        """Return a few answers of each kind, the most frequent kind first."""
        kinds: dict[tuple[bool, Outcome, Outcome], list[DeskAnswer]] = {}
        for one in self.answers:
            kinds.setdefault(one.kind, []).append(one)
        ordered = sorted(kinds.values(), key=lambda found: -len(found))
        return [one for found in ordered for one in found[:_SHOWN_PER_KIND]]

    def figures(self) -> dict[str, Any]:
        """Return the counts, as `--json` prints them."""
        return {
            "model": self.model,
            "seconds": round(self.seconds, 1),
            "outcomes": {
                title: {
                    name: dict(
                        zip(OUTCOMES, self.counts(answers, guarded=name == "guard"), strict=True)
                    )
                    for name in ("no guard", "guard")
                }
                for title, answers in self.rows()
            },
            "fewer_wrong": self.fewer_wrong(),
        }

    def lines(self) -> list[dict[str, Any]]:
        """Return an object per question, with both replies."""
        return [
            {
                "id": one.record.question_id,
                "question": one.record.question,
                "expected": one.record.answer,
                "article_there": one.in_kb,
                "route": one.decision.route.value,
                "relevance": one.decision.relevance,
                "guarded": asdict(one.guarded),
                "unguarded": asdict(one.unguarded),
            }
            for one in self.answers
        ]

    def section(self) -> Section:
        """Return the section of the report page."""
        columns = [f"{name}, {guard}" for guard in ("no guard", "guard") for name in OUTCOMES]
        lines = tuple(
            Line(f"{title} ({len(answers)})", tuple(map(Cell.estimate, shares)))
            for title, answers in self.rows()
            for shares in [self.counts(answers, guarded=False) + self.counts(answers, guarded=True)]
        )
        return Section(
            f"The help desk with {self.model}",
            (
                f"Every other article is missing, and all {len(self.answers)} questions are "
                f"asked. The model reads the {_READ} nearest articles; the guard of a question "
                "was calibrated on questions about other articles.",
                Table("Questions", tuple(columns), lines),
                f"Wrong replies without the guard minus wrong replies with it: "
                f"{interval_text(self.fewer_wrong())} (in all intervals, questions on one article "
                "are one unit).",
                Prose((RIGHT_RULE,), small=True),
                Cases(tuple(_case(one) for one in self.examples())),
            ),
        )


def _share(outcomes: NDArray[np.float64], _: NDArray[np.float64]) -> float | None:
    return float(outcomes.mean()) if len(outcomes) else None


RIGHT_RULE = (
    "A reply is right if it has all numbers of the expected answer that the question does not "
    "have; where there are none, at least half of its words that the question does not have, "
    "stop words aside. It abstains if the abstention detector says so, or the guard; any other "
    "reply is wrong. Where the article is missing, no reply is right but an abstention."
)


def interval_text(found: Interval) -> str:
    """Return a share or difference in percent with its interval.

    Example:
        >>> interval_text(Interval(0.25, 0.2, 0.31, 80))
        '25 % (20 to 31 %)'
    """
    if found.value is None or found.low is None or found.high is None:
        return "–"
    value, low, high = (f"{100 * share:.0f}" for share in (found.value, found.low, found.high))
    return f"{value} % ({low} to {high} %)"


def run_model_demo(
    out: Path,
    lm: LanguageModel,
    encoder: BiEncoderScorer,
    scorers: Mapping[str, RelevanceScorer],
    *,
    model: str,
    on_progress: OnProgress | None = None,
) -> ModelDemo:
    """Ask all questions of a help desk that lacks every other article.

    Args:
        out: folder with a measured run of each scorer, for calibration.
        lm: reads the articles and replies.
        encoder: retrieves.
        scorers: judge relevance; calibration chooses one.
        model: name of the language model.
        on_progress: called after each batch of replies.
    """
    records = QuestionRecord.read(sample_knowledge_base_path())
    there = set(_articles(records)[::2])
    store = article_store(encoder, [one for one in records if one.source in there])
    passages = [_retrieved(store, record.question) for record in records]
    decisions = _decisions(out, records, passages, scorers)
    prompt = Prompt("help_desk", _prompt_text())
    free = [_filled(prompt, record, texts) for record, texts in zip(records, passages, strict=True)]
    guarded = [
        _filled(prompt, record, [texts[place] for place in decision.kept])
        if decision.route is Route.FOLLOW_CONTEXT
        else None
        for record, texts, decision in zip(records, passages, decisions, strict=True)
    ]
    began = time.monotonic()
    replies = _replies(lm, [*free, *(one for one in guarded if one is not None)], on_progress)
    answers = tuple(
        DeskAnswer(
            record,
            record.source in there,
            decision,
            _judged(record, None if own is None else replies[own], record.source in there),
            _judged(record, replies[all_], record.source in there),
        )
        for record, decision, own, all_ in zip(records, decisions, guarded, free, strict=True)
    )
    return ModelDemo(model, answers, time.monotonic() - began)


def outcome_of(reply: str, record: QuestionRecord, in_kb: bool) -> Outcome:
    """Return what a reply of the model is worth; see `RIGHT_RULE`.

    Args:
        reply: of the model.
        record: the question, with the expected answer.
        in_kb: whether the help desk has the article that answers it.
    """
    if _DETECTOR.detect(reply, question=record.question).abstained:
        return "abstained"
    if not in_kb:
        return "wrong"
    asked, expected, said = (_words(text) for text in (record.question, record.answer, reply))
    wanted = expected - asked or expected
    if numbers := {word for word in wanted if word[0].isdigit()}:
        return "right" if numbers <= said else "wrong"
    return "right" if len(wanted & said) * 2 >= len(wanted) else "wrong"


_DETECTOR = AbstentionDetector()


def _words(text: str) -> set[str]:
    """Words and numbers, without stop words; "one" mostly is no number."""
    found = _WORD.findall(canonical_answer(text))
    kept = (word for word in found if word not in ENGLISH_STOP_WORDS and word != "1")
    return {word if word[0].isdigit() else word.rstrip("s")[:_STEM] for word in kept}


def _judged(record: QuestionRecord, reply: str | None, in_kb: bool) -> DeskReply:
    if reply is None:
        return DeskReply(ABSTENTION, "abstained")
    return DeskReply(reply, outcome_of(reply, record, in_kb))


def _articles(records: Sequence[QuestionRecord]) -> list[str]:
    return list(dict.fromkeys(record.source or "" for record in records))


def _retrieved(store: InMemoryVectorStore, question: str) -> list[str]:
    return [found.page_content for found in store.similarity_search(question, k=_READ)]


def _decisions(
    out: Path,
    records: Sequence[QuestionRecord],
    passages: Sequence[Sequence[str]],
    scorers: Mapping[str, RelevanceScorer],
) -> list[Decision]:
    """Decide on each question by a policy from the questions about the other half of articles."""
    measured = [CalibrationSet.of_run(out / name) for name in scorers]
    # Pairs of articles, so that each half has as many that are there as that are missing.
    half = {name: place // 2 % 2 for place, name in enumerate(_articles(records))}
    halves = {record.question_id: half[record.source or ""] for record in records}
    found: dict[str, Decision] = {}
    for number in (0, 1):
        others = [
            replace(one, records=tuple(r for r in one.records if halves[r.question_id] != number))
            for one in measured
        ]
        fitted = calibrate_records(others, Leak(RISK), delta=DELTA)
        # No deadline: all of them are decided, however slow the machine is.
        guard = Guard(
            fitted.policy,
            scorer=scorers[fitted.measured.name],
            options=GuardOptions(deadlines={"relevance": None}),
            metrics=False,
        )
        mine = [place for place, one in enumerate(records) if halves[one.question_id] == number]
        decided = guard.decide_batch(
            [records[place].question for place in mine], [passages[place] for place in mine]
        )
        found |= {records[place].question_id: one for place, one in zip(mine, decided, strict=True)}
    return [found[record.question_id] for record in records]


def _prompt_text() -> str:
    return resources.files(__package__).joinpath("help_desk.txt").read_text("utf-8").strip()


def _filled(prompt: Prompt, record: QuestionRecord, passages: Sequence[str]) -> str:
    return prompt.fill(context="\n\n".join(passages), question=record.question)


def _replies(
    lm: LanguageModel, prompts: Sequence[str], on_progress: OnProgress | None
) -> Mapping[str, str]:
    """The reply to each prompt; equal ones are asked once, those of one length together."""
    different = sorted(dict.fromkeys(prompts), key=len)
    found: dict[str, str] = {}
    began = time.monotonic()
    for start in range(0, len(different), _AT_ONCE):
        some = different[start : start + _AT_ONCE]
        replies = lm.generate(some, n=1, temperature=0.0, seed=0)
        found |= {
            prompt: reply[0].text.strip() for prompt, reply in zip(some, replies, strict=True)
        }
        if on_progress is not None:
            seconds = time.monotonic() - began
            # By length: later prompts are longer, so that time goes by characters.
            left = sum(map(len, different[len(found) :])) / sum(map(len, found))
            on_progress(Progress("reading", len(found), len(different), 0, seconds, seconds * left))
    return found


def _case(one: DeskAnswer) -> Case:
    there = "article there" if one.in_kb else "article missing"
    relevance = one.decision.relevance
    note = f"{one.record.question_id} · {there} · {one.decision.route.value}"
    replies = (("Without the guard", one.unguarded), ("With the guard", one.guarded))
    return Case(
        one.record.question,
        note if relevance is None else f"{note} · relevance {relevance:.2f}",
        (
            CaseLine(one.record.answer, "Expected" if one.in_kb else "In the missing article"),
            *(
                CaseLine(reply.text, label, tag=reply.outcome, wrong=reply.outcome == "wrong")
                for label, reply in replies
            ),
        ),
    )
