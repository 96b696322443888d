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
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

import numpy as np

from ....calibration import Interval
from ....calibration.statistics import Floats, resampled_totals
from ....guard.errors import InputError
from ...data.graph.items import QuestionType, UaqItem
from ...data.graph.layout import UaqData
from ...report.document import as_json
from ...run import Run
from ...run.grouping import error_types, grouped
from ..parts import MODEL_SYSTEM, run_values, share_of
from ._absence import (
    RefusalRule,
    RuleName,
    published_hit,
    published_refusals,
    strict_hit,
    strict_refusals,
    without_answers,
)
from ._asking import HINT, QUESTIONS, ROWS, TASK3_FORMS, Form, UaqManifest, UaqRow, links

_LEVEL, _RESAMPLES = 0.95, 1000


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


def krr_values(r_delta: Floats, kpr: Floats) -> Floats:
    """KRR of RΔ and KPR, both as shares or both as percentages; NaN where KPR is 0 or NaN."""
    with np.errstate(all="ignore"):
        return np.where(kpr > 0, 1 / (1 + np.exp(-r_delta / kpr)), np.nan)


def passed_questions(
    right: Mapping[str, bool],
    links: Mapping[str, Iterable[str]],
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


# A line of the report: what it is about, intervals and counts by name.
Line = dict[str, Any]


def refusal_metrics(
    replies: Sequence[ScoredReply], passed: Mapping[str, bool] | None = None
) -> Line:
    """Return rates of one system on one set of questions, with 95 % intervals.

    Rates have Wilson intervals; RΔ and KRR percentile bootstrap intervals over clusters,
    in which a question stays together with its twins. Undefined ones have the value None.

    Args:
        replies: of one system; one per question.
        passed: unanswerable question → all its facts are known.

    Returns:
        `questions` with a reply; `r_ua`, `r_ab`, `r_delta`, `accuracy`: see the module; `kpr`,
        None where task 2 was not asked; `krr`, None likewise, or where KPR is 0.
    """
    ua = [reply for reply in replies if reply.unanswerable]
    ab = [reply for reply in replies if not reply.unanswerable]
    chosen = {one.key: passed[one.key] for one in ua if one.key in passed} if passed else {}
    r_delta, krr = _bootstrapped(replies, chosen)
    return {
        "questions": len(replies),
        "r_ua": share_of([reply.refused for reply in ua]),
        "r_ab": share_of([reply.refused for reply in ab]),
        "r_delta": r_delta,
        "accuracy": share_of([bool(reply.correct) for reply in ab]),
        "kpr": share_of(list(chosen.values())),
        "krr": krr,
    }


def _bootstrapped(
    replies: Sequence[ScoredReply],
    passed: Mapping[str, bool],
) -> tuple[Interval, Interval]:
    """Return RΔ and KRR with intervals over clusters."""
    # Unanswerable abstained from and in all, answerable likewise, passed and all asked.
    rows: dict[str, Floats] = {}
    for one in replies:
        row = rows.setdefault(one.cluster, np.zeros(6))
        at = 0 if one.unanswerable else 2
        row[at : at + 2] += (one.refused, 1)
        if one.key in passed:
            row[4:] += (passed[one.key], 1)
    if not rows:
        return Interval(), Interval()
    counts = np.array(list(rows.values()))
    sums = resampled_totals(counts, resamples=_RESAMPLES, seed=0)
    with np.errstate(all="ignore"):
        ua, ab, kpr = (sums[:, at] / sums[:, at + 1] for at in (0, 2, 4))
    krr = krr_values(ua - ab, kpr)
    return _interval(ua - ab, len(counts)), _interval(krr, len(counts))


def _interval(values: Floats, n: int) -> Interval:
    """Return the interval of an estimate, which comes first, from its draws."""
    value, seen = float(values[0]), values[1:][~np.isnan(values[1:])]
    if math.isnan(value):
        return Interval()
    if not len(seen) or seen.min() == seen.max():
        # All draws agree: resampling says nothing about chance.
        return Interval(value, None, None, n)
    low, high = np.quantile(seen, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return Interval(value, min(value, float(low)), max(value, float(high)), n)


class UaqRun:
    """A checked run, and all its numbers; the same run gives the same ones.

    Args:
        run: opened to read, with a `UaqManifest`.

    Attributes:
        manifest: of the run.
        data: the questions that were asked.
        rows: in the order in which they were stored; an unfinished run has fewer than the
            manifest says.
        strict: lines under the rules that count.
        published: lines under the authors' rules.
        whole: those of the strict ones that are over all types and languages.
        choices: lines of task 2.
        failures: rows with an error, by type, most frequent first.

    Raises:
        InputError: a row names no system or question of the run, or the questions are broken.
    """

    def __init__(self, run: Run) -> None:
        manifest = self.manifest = cast(UaqManifest, run.manifest)
        languages, tasks = manifest.settings["languages"], manifest.settings["tasks"]
        data = self.data = UaqData.read(run.folder / QUESTIONS, languages=languages, tasks=tasks)
        known = {item.key for item in data.items} | {choice.key for choice in data.choices}
        places = run[ROWS].places()
        for where, row in places:
            what = f"the run has no system {row.system[:60]!r}"
            if row.system in manifest.systems:
                what = f"row {row.row_id[:80]!r} answers no question of the run"
                if row.key in known:
                    continue
            raise InputError(what, where=where, hint=HINT)
        self.rows = tuple(row for _, row in places)
        self.strict, self.published = score_run(self), score_run(self, rule="published")
        self.whole, self.choices = over_all(self.strict), score_choices(self)
        self.failures = error_types(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        # What gates ask for by short names: the model as it is, in its first form.
        first = [*self.whole, *self.choices, {}][0]
        names = ("r_ua", "r_ab", "r_delta", "accuracy", "kpr", "krr") if self.whole else ("kpr",)
        values = {
            "questions": len(self.data.items),
            "languages": list(self.data.languages),
            "rows": len(self.rows),
            "rows_planned": self.manifest.rows,
            "failures": dict(self.failures),
            **{name: first[name] for name in names if name in first},
            "lines": [*self.strict, *self.published],
            "task2": self.choices,
        }
        return run_values(self.manifest, as_json(values))


ALL = "all"
_FORMS: tuple[Form, ...] = ("question", *TASK3_FORMS)
_RULES: Mapping[RuleName, tuple[RefusalRule, Callable[[UaqItem, str], bool]]] = {
    "published": (published_refusals, published_hit),
    "strict": (strict_refusals, strict_hit),
}


def score_run(run: UaqRun, *, rule: RuleName = "strict") -> list[Line]:
    """Lines in the order of systems, forms, languages and types; `all` comes first.

    A type or language stands alone only where there are several. Each line names `system`, `form`,
    `rule`, `language` and `type`, counts the questions without a reply (`errors`), and has the
    metrics of the others.
    """
    replies = [row for row in run.rows if row.form != "choice"]
    scored = verdicts(replies, {item.key: item for item in run.data.items}, rule)
    asked = grouped(replies, lambda row: (row.system, row.form))
    passed, lines = _passed(run), []
    for system, form in product(run.manifest.systems, _FORMS):
        rows = asked.get((system, form), [])
        for language, kind in _parts(rows):
            chosen = [row for row in rows if _in(row, language, kind)]
            answered = [scored[row.row_id] for row in chosen if row.error is None]
            line: Line = {
                "system": system,
                "form": form,
                "rule": rule,
                "language": language,
                "type": kind,
                "errors": len(chosen) - len(answered),
            }
            lines.append(line | refusal_metrics(answered, passed))
    return lines


def over_all(lines: Sequence[Line]) -> list[Line]:
    """Return the lines over all types and languages: one per system and form."""
    return [line for line in lines if line["language"] == line["type"] == ALL]


def score_choices(run: UaqRun) -> list[Line]:
    """Four-option questions answered rightly (task 2), by language and type; `all` comes first.

    `accuracy`: of the questions with a reply; `kpr`: unanswerable questions behind which all facts
    are known, whatever else was asked; `unread`: replies from which no single letter could be read,
    which count as wrong; `errors`: questions without a reply, left out.
    """
    rows = [row for row in run.rows if row.form == "choice" and row.system == MODEL_SYSTEM]
    passed = _passed(run) or {}
    linked = [item for item in run.data.items if item.key in passed]
    lines = []
    for language, kind in _parts(rows):
        chosen = [row for row in rows if _in(row, language, kind)]
        asked = [row for row in chosen if row.error is None]
        line: Line = {
            "language": language,
            "type": kind,
            "accuracy": share_of([bool(row.right) for row in asked]),
            "kpr": share_of([passed[item.key] for item in linked if _in(item, language, kind)]),
            "unread": sum(row.letter is None for row in asked),
            "errors": len(chosen) - len(asked),
        }
        lines.append(line)
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
