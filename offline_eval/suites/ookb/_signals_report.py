"""The report of a run of relevance signals: numbers, thresholds to try, and a plot.

Sentences stand in `signals.txt`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ....calibration import Interval
from ....guard.policy import Policy
from ...data.questions import SHARED_BY_PEOPLE, note_on_makers
from ...report.document import Document, Section
from ...report.plots import Colour, Plot, histograms
from ...report.prose import Templates
from ...report.tables import Table
from ...report.text import decimal, percent
from ...report.what_if import WhatIf, WhatIfCase, cascade_without_what_if
from ...run.grouping import value_at
from ..parts import run_document
from .signals import ScoredCase, SignalsSummary, relevance_gate

WORDS = Templates(Path(__file__).parent / "signals.txt")


def signals_document(found: SignalsSummary) -> Document:
    """Make the report of a run."""
    values, manifest = found.values, found.run.manifest
    facts = {
        "makers": note_on_makers(values["made_by"] or {}, values["questions"]),
        "figures": _figures(found),
        "scores": _histograms(found),
        "what_if": signals_what_if(found),
    }
    document = run_document("ookb", WORDS, manifest, found, facts)
    *parts, of_run = filter(None, document.sections)
    last = Section.next_steps(WORDS.terms("next_steps", values, found.live))
    title = [document.title, ", ".join(file.name for file in manifest.inputs)]
    return replace(
        document,
        title=": ".join(filter(None, title)),
        sections=[*parts, replace(of_run, folded=True), last],
    )


def _figures(found: SignalsSummary) -> Table:
    lines, values = [], found.values
    which = WORDS.text("which_questions", found.run.calibration)
    for line in WORDS.paragraphs("figures", values, which, SHARED_BY_PEOPLE):
        key, title, meaning = line.split(" :: ", 2)
        rate = value_at(values, key)
        if key == "shared_words":
            rate = Interval(rate, n=values["questions"])
        note = found.note(key, rate)
        told = f"{meaning} Not measured: {note}." if note else meaning
        lines.append((title, rate, told, decimal if key.startswith("auroc") else percent))
    return Table.of_figures(lines)


# -- Other thresholds -------------------------------------------------------------------


def signals_what_if(found: SignalsSummary) -> WhatIf | str | None:
    """Collect the cases that the rates are about, without a policy all; None without any.

    Of a cascade of scorers it returns why there is nothing to try.
    """
    run, calibration = found.run, found.run.calibration
    if run.manifest.settings.scorer.stages:
        return cascade_without_what_if()
    shown = [case for case in _promised(found) if case.counted or calibration is None]
    if not any(case.found or case.missing for case in shown):
        return None
    policy, of = None if calibration is None else calibration.policy, run.manifest.settings
    bare = Policy(scorer=of.scorer, aggregator=of.aggregator, relevance_threshold=None)
    # Where nothing was held out these are all of them.
    everything = calibration is not None and not calibration.test_questions
    return WhatIf(
        cases=tuple(map(_what_if_case, shown)),
        policy=bare if policy is None else relevance_gate(policy),
        which=WORDS.text("which_questions", None if everything else calibration),
        leave_one_out=True,
        scale="raw relevance score" if calibration is None else "relevance",
        notes=() if calibration is None else (WORDS.text("one_threshold"),),
    )


def _promised(found: SignalsSummary) -> Sequence[ScoredCase]:
    """Return the cases that the promise is about; of what is missing the left-out ones without."""
    calibration, cases = found.run.calibration, found.scored
    guarantee = None if calibration is None else calibration.policy.guarantee
    if guarantee is None or guarantee.missing in (None, "left_out"):
        return cases
    kept = cases if guarantee.missing == "both" else [one for one in cases if not one.left_out]
    return (*kept, *found.scored_unanswerable)


def _what_if_case(case: ScoredCase) -> WhatIfCase:
    row = case.row
    raw = row.raw_relevance if row.retrieved else None
    return WhatIfCase(
        relevance=raw if case.relevance is None else case.relevance,
        confidence=None,
        context_right=case.found or case.elsewhere,
        nothing_retrieved=raw is None,
        # Neither a leak nor, chosen by relevance as it is, a fair sample of what can be answered.
        missed=case.missed or case.elsewhere,
        name=row.case_id,
        question=case.question.question,
    )


_IN_KB, _LEFT_OUT, _MISS = Colour.BLUE, Colour.VERMILION, Colour.GREY
_BINS = 20


def _histograms(summary: SignalsSummary) -> Plot | None:
    cases, calibrated = summary.scored, summary.run.calibration is not None
    # Without passages there is no raw score to draw; calibrated, it is a relevance of 0.
    shown, own = (
        [case for case in among if calibrated or case.row.retrieved]
        for among in (cases, summary.scored_unanswerable)
    )
    if not shown:
        return None
    kinds = (
        ("in knowledge base, retrieved", _IN_KB, [case for case in shown if case.found]),
        ("in knowledge base, not retrieved", _MISS, [case for case in shown if case.missed]),
        ("answer left out", _LEFT_OUT, [case for case in shown if case.left_out]),
        ("unanswerable, your own", _LEFT_OUT, own),
    )
    panels = [
        (name, colour, [one.score if one.relevance is None else one.relevance for one in members])
        for name, colour, members in kinds
        if members
    ]
    low, high = 0.0, 1.0
    if not calibrated:
        everything = [value for _, _, values in panels for value in values]
        low, high = min(everything), max(everything)
        if high - low < 1e-9:
            low, high = low - 0.5, high + 0.5
    threshold = (summary.values["policy"] or {}).get("threshold")
    caption = WORDS.text("caption_of_scores", threshold, len(cases) - len(shown))
    return histograms(
        ("scores", "How relevance is distributed", caption),
        panels,
        [low + (high - low) * step / _BINS for step in range(_BINS + 1)],
        "relevance (calibrated)" if calibrated else "raw relevance score",
        threshold,
    )
