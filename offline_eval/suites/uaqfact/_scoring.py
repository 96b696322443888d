"""From rows to numbers: for every system and form, by type and language, under both rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....calibration import Interval
from ...data.graph import QuestionType, UaqItem
from .._parts import MODEL_SYSTEM
from ._absence import (
    RefusalRule,
    RuleName,
    published_hit,
    published_refusals,
    strict_hit,
    strict_refusals,
    without_answers,
)
from ._metrics import RefusalMetrics, ScoredReply, passed_questions, refusal_metrics
from ._plan import Form, UaqRow, links
from ._run_reading import UaqRun

ALL = "all"
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
        return {
            "system": self.system,
            "form": self.form,
            "rule": self.rule,
            "language": self.language,
            "type": self.type,
            "errors": self.errors,
            **self.metrics.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class ChoiceLine:
    """Four-option questions answered rightly (task 2), on one part of them.

    Attributes:
        accuracy: of the questions with a reply.
        kpr: unanswerable questions behind which all facts are known, whatever else was asked.
        unread: replies from which no single letter could be read; they count as wrong.
        errors: questions without a reply, left out.
    """

    language: str
    type: str
    accuracy: Interval
    kpr: Interval
    unread: int
    errors: int

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        return {
            "language": self.language,
            "type": self.type,
            "accuracy": self.accuracy.to_dict(),
            "kpr": self.kpr.to_dict(),
            "unread": self.unread,
            "errors": self.errors,
        }


def score_run(run: UaqRun, *, rule: RuleName = "strict") -> list[ScoreLine]:
    """Lines in the order of systems, forms, languages and types; `all` comes first.

    A type or language stands alone only where there are several.
    """
    items = {item.key: item for item in run.data.items}
    passed = _passed(run)
    lines = []
    for system in run.manifest.systems:
        for form in ("question", "clue", "facts", "retrieved"):
            rows = [row for row in run.rows if row.system == system and row.form == form]
            if not rows:
                continue
            scored = _scored([row for row in rows if row.error is None], items, rule)
            for language, question_type in _parts(rows):
                chosen = [row for row in rows if _in(row, language, question_type)]
                lines.append(
                    ScoreLine(
                        system=system,
                        form=rows[0].form,
                        rule=rule,
                        language=language,
                        type=question_type,
                        errors=sum(row.error is not None for row in chosen),
                        metrics=refusal_metrics(
                            [scored[row.key] for row in chosen if row.error is None], passed
                        ),
                    )
                )
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
        asked = [row for row in chosen if row.error is None]
        lines.append(
            ChoiceLine(
                language=language,
                type=question_type,
                accuracy=Interval.wilson(sum(bool(row.right) for row in asked), len(asked)),
                kpr=Interval.wilson(sum(known), len(known)),
                unread=sum(row.letter is None for row in asked),
                errors=len(chosen) - len(asked),
            )
        )
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


def _scored(
    rows: Sequence[UaqRow], items: Mapping[str, UaqItem], rule: RuleName
) -> dict[str, ScoredReply]:
    found = verdicts(rows, items, rule)
    return {row.key: found[row.row_id] for row in rows}


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
    parts = [(ALL, ALL)]
    if len(types) > 1:
        parts += [(ALL, name) for name in types]
    if len(languages) > 1:
        for language in languages:
            parts.append((language, ALL))
            if len(types) > 1:
                parts += [(language, name) for name in types]
    return parts if rows else []


def _in(row: UaqRow | UaqItem, language: str, question_type: str) -> bool:
    return language in (ALL, row.language) and question_type in (ALL, row.type.value)
