"""The report of a calibration: its sections.

Calibrated ─► calibration_document ─► a page, and the same numbers as JSON
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...calibration.risk.fit import PolicyBinding
from ...guard.artefacts import Guarantee
from ...guard.policy import Policy
from ..report.document import Document, Prose, Section, as_json
from ..report.plots import Plot
from ..report.tables import Cell, Table
from ..report.text import decimal, percent
from ..report.what_if import WhatIf
from ._calibrated import Calibrated
from ._plots import reliability_plot, risk_coverage_plot
from ._rates import Outcome, outcomes_under, selective_qualities, signal_qualities
from .records import WORDS

_SCHEMA_VERSION = 1
_Rows = Mapping[str, Mapping[str, Any]]


def calibration_document(found: Calibrated) -> Document:
    """Make the report of a calibration."""
    guarantee = found.policy.guarantee
    risk = 0.0 if guarantee is None else guarantee.risk
    signals = signal_qualities(found.choices, found.unseen, seed=found.seed)
    rankings = selective_qualities(found.policy, found.unseen, risk=risk, seed=found.seed)
    which = "Held-out questions" if found.test else "Questions that the certificate rests on"
    outcomes = outcomes_under(found.policy, found.test or found.certify)
    data = WORDS.meanings("data", found, _parts(found), PolicyBinding.UNNAMED)
    return Document(
        name="calibration",
        title=f"Calibration on {found.measured.name}",
        subtitle=f"{found.measured.questions} questions, {len(found.measured.records)} cases, "
        f"{found.measured.groups} independent units · {found.policy.created_by}",
        headline=WORDS.paragraphs("headline", found, _as_bound(risk)),
        warnings=(*(problem.what for problem in found.problems), *found.warnings),
        sections=(
            Section("Results", (_results(found),)),
            Section("What is promised", _promise(found)),
            Section("How the point was chosen", (_choice(found, rankings),)),
            Section(
                "What if the thresholds were others?",
                what_if_of(found.policy, outcomes, which).blocks if outcomes else (),
            ),
            Section("The signals", (reliability_plot(signals), _signals(signals))),
            Section("How well right comes before wrong", (_ranking_table(found, rankings),))
            if rankings
            else None,
            Section("Data and hashes", (Prose(tuple(data.items()), "code"),)),
        ),
        values=_values(found, signals, rankings),
    )


def _bounds_a_cost(guarantee: Guarantee | None) -> bool:
    """Whether the bound is on what errors cost, and not on how many there are."""
    return guarantee is not None and any(risk.kind == "cost" for risk in guarantee.risks)


def _results(found: Calibrated) -> Table | str:
    if found.rates is None:
        return "Nothing was measured on questions that the policy does not rest on."
    promised = not _bounds_a_cost(found.policy.guarantee)
    lines = [
        (title, getattr(found.rates, name), meaning if promised or name != "risk" else "", percent)
        for name, (title, meaning) in _FIGURES.items()
    ]
    name = f"On questions {found.judged}"
    return Table.of_figures(lines, name=name, unit="Independent units")


# Of each rate what it is called, and what it says; of the first as far as it is promised.
_FIGURES = {
    "risk": ("wrong among those let through", "what the promise is about"),
    "coverage": ("let through", "of all cases; higher is better at the same risk"),
    "false_abstention": (
        "abstained from without need",
        "of cases where context or memory would have been right",
    ),
    "followed": ("context followed", "of all cases"),
    "followed_wrong": ("wrong among the followed", "the reply from the context was not right"),
    "answered": ("answered from memory", "of all cases"),
    "answered_wrong": ("wrong among those from memory", "the reply from memory was not right"),
}


def _promise(found: Calibrated) -> tuple[str | Section | Prose | None, ...]:
    guarantee = found.policy.guarantee
    limits, risk = None, "" if guarantee is None else _as_bound(guarantee.risk)
    if guarantee is not None and guarantee.certified:
        lines = (*guarantee.not_covered, *found.not_promised)
        limits = Section("What is not promised", ("It says nothing about:", Prose(lines, "item")))
    return (
        "" if guarantee is None else guarantee.statement,
        Section("For whom", (WORDS.text("population", found),)),
        limits,
        Prose(tuple(WORDS.meanings("facts", found, risk).items()), "fact"),
    )


def _choice(found: Calibrated, rankings: _Rows) -> Plot | None:
    guarantee = found.policy.guarantee
    # A path tested for its costs has no place on an axis of wrong answers.
    if _bounds_a_cost(guarantee):
        return risk_coverage_plot(rankings, (), None)
    bounded = guarantee is not None and (guarantee.certified or found.coverage is None)
    risk = guarantee.risk if guarantee is not None and bounded else None
    return risk_coverage_plot(rankings, found.steps, risk)


def _as_bound(share: float) -> str:
    """A bound in percent: as it was asked for, or, found from data, rounded up to a tenth."""
    asked = round(share, 6) == share
    return percent(share if asked else math.ceil(1000 * share) / 1000, exact=True)


def _signals(signals: _Rows) -> Table:
    columns = (
        ("Calibration error, raw", "before.calibration_error", "decimal"),
        ("calibrated", "after.calibration_error", "decimal"),
        ("Brier score, raw", "before.brier", "decimal"),
        ("calibrated", "after.brier", "decimal"),
        ("AUROC", "auroc", "decimal"),
        ("Cases", "cases"),
    )
    notes = [WORDS.text("calibrator", *one) for one in signals.items()]
    notes.append(WORDS.text("calibration_error"))
    return Table.of_lines("Signal", signals, columns, notes=tuple(notes))


def _ranking_table(found: Calibrated, rankings: _Rows) -> Table:
    guarantee, shown = found.policy.guarantee, rankings.values()
    at_risk = "" if guarantee is None else f"Coverage at risk {percent(guarantee.risk)}"
    reached = [one["coverage_at_risk"] for one in shown]
    columns = [
        ("AURC", Cell.column([one["aurc"] for one in shown], decimal)),
        ("excess AURC", Cell.column([one["excess_aurc"] for one in shown], decimal)),
        ("AUGRC", Cell.column([one["augrc"] for one in shown], decimal)),
        (at_risk, [Cell("none" if one is None else percent(one)) for one in reached]),
        ("Cases", [Cell(str(one["cases"])) for one in shown]),
    ]
    return Table.from_columns("Ranking", list(rankings), columns, notes=(WORDS.text("areas"),))


def _values(found: Calibrated, signals: _Rows, rankings: _Rows) -> dict[str, Any]:
    """Content of the JSON file; free of NaN."""
    rates = None if found.rates is None else vars(found.rates)
    values = {
        "schema_version": _SCHEMA_VERSION,
        "kind": "calibration",
        "created_by": found.policy.created_by,
        "source": found.measured.name,
        "cases_sha256": found.measured.sha256,
        "population": found.measured.population,
        "seed": found.seed,
        "coverage_asked_for": found.coverage,
        "parts": _parts(found),
        "policy": found.policy,
        "path": found.steps,
        "held_out": rates if found.test else None,
        "certified_on": None if found.test else rates,
        "problems": found.problems,
        "signals": signals,
        "rankings": {
            name: {key: one for key, one in quality.items() if key != "curve"}
            for name, quality in rankings.items()
        },
        "warnings": found.warnings,
        "not_promised": found.not_promised,
    }
    return {name: as_json(value) for name, value in values.items()}


def _parts(found: Calibrated) -> dict[str, dict[str, int]]:
    parts = {"learn": found.learn, "certify": found.certify, "test": found.test}
    return {
        name: {
            "cases": len(cases),
            "questions": len({case.question_id for case in cases}),
            "units": len({case.unit for case in cases}),
        }
        for name, cases in parts.items()
    }


def what_if_of(policy: Policy, outcomes: Sequence[Outcome], which: str) -> WhatIf:
    """Let a reader try other thresholds on these cases.

    Args:
        policy: whose thresholds are the point to compare with.
        outcomes: of the cases under it.
        which: cases these are, in words.
    """
    cases = tuple(outcome.shown for outcome in outcomes)
    return WhatIf(cases, policy, which, leave_one_out=False)
