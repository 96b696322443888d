"""The suite's numbers: who abstains when, what is right, what is known and put to use.

    R_ua   abstentions among unanswerable questions      R_ab   among answerable ones
    RΔ     R_ua − R_ab                                 Acc    right among answerable ones
    KPR    share of unanswerable questions whose linked facts are all known (task 2)
    KRR    1 / (1 + exp(−RΔ / KPR)): knowledge put to use in abstaining

Source: "UAQFact: Evaluating Factual Knowledge Utilization of LLMs on Unanswerable Questions".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....calibration import Interval
from ....calibration.statistics import QuestionResamples
from ....guard.errors import InputError
from ...data.graph.items import QuestionType, UaqItem
from ...data.graph.layout import UaqData
from ...report.document import as_json
from ...run.grouping import grouped
from ..parts import MODEL_SYSTEM
from ._absence import (
    RefusalRule,
    RuleName,
    published_hit,
    published_refusals,
    strict_hit,
    strict_refusals,
    without_answers,
)
from ._asking import QUESTIONS, TASK3_FORMS, Form, UaqManifest, UaqRow, links

_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class ScoredReply:
    """A reply with its verdicts.

    Attributes:
        key: of the question.
        cluster: shared by a question and its twins in other kinds and languages, which are
            no independent evidence.
        unanswerable: of the question.
        refused: the reply abstains.
        correct: it names a right answer; None for an unanswerable question.
    """

    key: str
    cluster: str
    unanswerable: bool
    refused: bool
    correct: bool | None


def krr_value(r_delta: float, kpr: float) -> float | None:
    """KRR of RΔ and KPR, both as shares or both as percentages; None where KPR is 0.

    Example:
        >>> round(100 * krr_value(20.89, 73.11), 2)   # Llama3-8B, published
        57.1
    """
    if kpr == 0:
        return None
    return 1.0 / (1.0 + math.exp(-r_delta / kpr))


def passed_questions(
    right: Mapping[str, bool], links: Mapping[str, Iterable[str]]
) -> dict[str, bool]:
    """For every question whether all its linked facts are known.

    Args:
        right: four-option question → answered rightly; those not asked are missing.
        links: question → the four-option questions on its facts. One of which any was
            not asked, or failed, is left out.
    """
    answers = {question: [right.get(fact) for fact in facts] for question, facts in links.items()}
    return {
        question: all(found) for question, found in answers.items() if found and None not in found
    }


class RefusalMetrics:
    """Rates of one system on one set of questions, with 95 % intervals.

    Rates have Wilson intervals; RΔ and KRR percentile bootstrap intervals over clusters,
    in which a question stays together with its twins. Undefined ones have the value None.

    Args:
        replies: of one system; one per question.
        passed: unanswerable question → all its facts are known.
        resamples: of the bootstrap.
        seed: likewise.

    Attributes:
        questions: with a reply.
        r_ua, r_ab, r_delta, accuracy: see the module.
        kpr: None where task 2 was not asked.
        krr: likewise, or where KPR is 0.
    """

    def __init__(
        self,
        replies: Sequence[ScoredReply],
        passed: Mapping[str, bool] | None = None,
        *,
        resamples: int = 1000,
        seed: int = 0,
    ) -> None:
        ua = [reply for reply in replies if reply.unanswerable]
        ab = [reply for reply in replies if not reply.unanswerable]
        chosen = {} if passed is None else {r.key: passed[r.key] for r in ua if r.key in passed}
        counts = _cluster_counts(replies, chosen)
        draws = _draws(counts, resamples, seed)
        self.questions = len(replies)
        self.r_ua = _rate([reply.refused for reply in ua])
        self.r_ab = _rate([reply.refused for reply in ab])
        self.r_delta = _bootstrapped(counts, draws, _r_delta)
        self.accuracy = _rate([bool(reply.correct) for reply in ab])
        self.kpr = _rate(list(chosen.values()))
        self.krr = _bootstrapped(counts, draws, _krr)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        found: dict[str, Any] = as_json(vars(self))
        return found


Counts = NDArray[np.float64]
"""Columns: unanswerable abstained from and in all, answerable likewise, passed and all asked."""


def _cluster_counts(replies: Sequence[ScoredReply], passed: Mapping[str, bool]) -> Counts:
    rows: dict[str, list[float]] = {}
    for reply in replies:
        row = rows.setdefault(reply.cluster, [0.0] * 6)
        at = 0 if reply.unanswerable else 2
        row[at] += reply.refused
        row[at + 1] += 1
        if reply.key in passed:
            row[4] += passed[reply.key]
            row[5] += 1
    return np.array(list(rows.values()), dtype=np.float64).reshape(len(rows), 6)


def _draws(counts: Counts, resamples: int, seed: int) -> Counts:
    """Column sums of each resample, shape (resamples, 6)."""
    if not len(counts):
        return np.zeros((0, 6))
    return QuestionResamples(range(len(counts)), resamples=resamples, seed=seed).totals(counts)


def _r_delta(sums: Counts) -> float | None:
    if not sums[1] or not sums[3]:
        return None
    return float(sums[0] / sums[1] - sums[2] / sums[3])


def _krr(sums: Counts) -> float | None:
    delta = _r_delta(sums)
    if delta is None or not sums[5]:
        return None
    return krr_value(delta, float(sums[4] / sums[5]))


def _bootstrapped(
    counts: Counts, draws: Counts, statistic: Callable[[Counts], float | None]
) -> Interval:
    value = statistic(counts.sum(axis=0)) if len(counts) else None
    if value is None:
        return Interval()
    seen = [found for found in map(statistic, draws) if found is not None]
    if not seen or min(seen) == max(seen):
        # All draws agree: resampling says nothing about chance.
        return Interval(value, None, None, len(counts))
    low, high = np.quantile(seen, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return Interval(value, min(value, float(low)), max(value, float(high)), len(counts))


def _rate(flags: Sequence[bool]) -> Interval:
    return Interval.wilson(sum(flags), len(flags))


_HINT = "run `knowgate eval uaqfact` again into another folder"


@dataclass(frozen=True, slots=True)
class UaqRun:
    """A checked run.

    Attributes:
        manifest: of the run.
        data: the questions that were asked.
        rows: in the order in which they were stored; an unfinished run has fewer than the
            manifest says.
    """

    manifest: UaqManifest
    data: UaqData
    rows: tuple[UaqRow, ...]

    @property
    def tasks(self) -> tuple[int, ...]:
        """The tasks that were asked for."""
        return tuple(self.manifest.settings["tasks"])


def checked_run(
    folder: Path, manifest: UaqManifest, places: Sequence[tuple[str, UaqRow]]
) -> UaqRun:
    """Check that the parts of a run belong together.

    Args:
        folder: of the run, with its questions.
        manifest: of the run.
        places: `file:line` and row.

    Raises:
        InputError: a row names no system or question of the run, or the questions are broken.
    """
    settings = manifest.settings
    data = UaqData.read(
        folder / QUESTIONS, languages=settings["languages"], tasks=settings["tasks"]
    )
    known = {item.key for item in data.items} | {choice.key for choice in data.choices}
    for where, row in places:
        if row.system not in manifest.systems:
            raise InputError(f"the run has no system {row.system[:60]!r}", where=where, hint=_HINT)
        if row.key not in known:
            raise InputError(
                f"row {row.row_id[:80]!r} answers no question of the run", where=where, hint=_HINT
            )
    return UaqRun(manifest, data, tuple(row for _, row in places))


ALL = "all"
_FORMS: tuple[Form, ...] = ("question", *TASK3_FORMS)
_RULES: Mapping[RuleName, tuple[RefusalRule, Callable[[UaqItem, str], bool]]] = {
    "published": (published_refusals, published_hit),
    "strict": (strict_refusals, strict_hit),
}


@dataclass(frozen=True, slots=True)
class ScoreLine:
    """The metrics of one system in one form on one part of the questions.

    Attributes:
        system: `model` or a guard's name.
        form: how questions were put.
        rule: `strict` or `published`.
        language: `en`, `zh`, or `all`.
        type: `inter`, `time`, `dilemma`, or `all`.
        errors: questions without a reply, left out.
        metrics: of the others.
    """

    system: str
    form: Form
    rule: RuleName
    language: str
    type: str
    errors: int
    metrics: RefusalMetrics

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        names = [one.name for one in fields(self) if one.name != "metrics"]
        return {name: getattr(self, name) for name in names} | self.metrics.to_dict()


class ChoiceLine:
    """Four-option questions answered rightly (task 2), on one part of them.

    Args:
        language: of the part, or `all`.
        type: of the part, or `all`.
        rows: of the part.
        known: of each unanswerable question of the part, whether all facts behind it are known.

    Attributes:
        accuracy: of the questions with a reply.
        kpr: unanswerable questions behind which all facts are known, whatever else was asked.
        unread: replies from which no single letter could be read; they count as wrong.
        errors: questions without a reply, left out.
    """

    def __init__(
        self, language: str, type: str, rows: Sequence[UaqRow], known: Sequence[bool]
    ) -> None:
        asked = [row for row in rows if row.error is None]
        self.language, self.type = language, type
        self.accuracy = Interval.wilson(sum(bool(row.right) for row in asked), len(asked))
        self.kpr = Interval.wilson(sum(known), len(known))
        self.unread = sum(row.letter is None for row in asked)
        self.errors = len(rows) - len(asked)


def score_run(run: UaqRun, *, rule: RuleName = "strict") -> list[ScoreLine]:
    """Lines in the order of systems, forms, languages and types; `all` comes first.

    A type or language stands alone only where there are several.
    """
    replies = [row for row in run.rows if row.form != "choice"]
    scored = verdicts(replies, {item.key: item for item in run.data.items}, rule)
    asked = grouped(replies, lambda row: (row.system, row.form))
    passed, lines = _passed(run), []
    for system, form in product(run.manifest.systems, _FORMS):
        rows = asked.get((system, form), [])
        for language, question_type in _parts(rows):
            chosen = [row for row in rows if _in(row, language, question_type)]
            answered = [scored[row.row_id] for row in chosen if row.error is None]
            errors, metrics = len(chosen) - len(answered), RefusalMetrics(answered, passed)
            lines.append(ScoreLine(system, form, rule, language, question_type, errors, metrics))
    return lines


def score_choices(run: UaqRun) -> list[ChoiceLine]:
    """Task 2 by language and type; `all` comes first."""
    rows = [row for row in run.rows if row.form == "choice" and row.system == MODEL_SYSTEM]
    passed = _passed(run) or {}
    linked = [item for item in run.data.items if item.key in passed]
    lines = []
    for language, question_type in _parts(rows):
        chosen = [row for row in rows if _in(row, language, question_type)]
        known = [passed[item.key] for item in linked if _in(item, language, question_type)]
        lines.append(ChoiceLine(language, question_type, chosen, known))
    return lines


def verdicts(
    rows: Sequence[UaqRow], items: Mapping[str, UaqItem], rule: RuleName = "strict"
) -> dict[str, ScoredReply]:
    """Row id → the verdict on its reply; rows with errors are left out."""
    answered = [row for row in rows if row.error is None and row.response is not None]
    refuses, hits = _RULES[rule]
    refused = refuses([row.response or "" for row in answered])
    found = {}
    for row, refusal in zip(answered, refused, strict=True):
        item, reply, abstained = items[row.key], row.response or "", refusal
        right = None if item.unanswerable else hits(item, reply)
        if rule == "strict" and right and abstained:
            # An answer called "No Answer" is one. Otherwise this is a hedge around the
            # answer: it abstains, so it does not answer.
            abstained = refuses([without_answers(item, reply)])[0]
            right = not abstained
        found[row.row_id] = ScoredReply(
            key=item.key,
            cluster=f"{item.type.value}/{_number(item.qid)}",
            unanswerable=item.unanswerable,
            refused=abstained,
            correct=right,
        )
    return found


def _passed(run: UaqRun) -> dict[str, bool] | None:
    rows = [row for row in run.rows if row.form == "choice" and row.error is None]
    if not rows:
        return None
    return passed_questions({row.key: bool(row.right) for row in rows}, links(run.data))


def _number(qid: str) -> str:
    # Twins in kinds and languages share the number: `time_0_ua_en`, `time_0_ab_zh`.
    digits = [part for part in qid.split("_") if part.isdecimal()]
    return digits[0] if digits else qid


def _parts(rows: Sequence[UaqRow]) -> list[tuple[str, str]]:
    languages = list(dict.fromkeys(row.language for row in rows))
    types = [kind.value for kind in QuestionType if any(row.type is kind for row in rows)]
    pairs = product(
        [ALL, *(languages if len(languages) > 1 else ())], [ALL, *(types if len(types) > 1 else ())]
    )
    return list(pairs) if rows else []


def _in(row: UaqRow | UaqItem, language: str, question_type: str) -> bool:
    return language in (ALL, row.language) and question_type in (ALL, row.type.value)
