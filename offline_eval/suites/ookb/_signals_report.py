"""The report of a run of relevance signals: numbers, thresholds to try, and cases to read.

Sentences stand in `signals.txt`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ....calibration import Interval
from ....guard.policy import Policy
from ...report import (
    CASCADE_WITHOUT_WHAT_IF,
    Case,
    CaseLine,
    Cases,
    Document,
    Facts,
    Figure,
    Figures,
    Passages,
    Prose,
    Section,
    Templates,
    WhatIf,
    WhatIfCase,
    decimal,
    explained,
    one_line,
    percent,
)
from ...run import MeasuredRun, Review
from ._signals_plots import signal_plots
from ._signals_summary import ScoredCase, SignalsSummary, relevance_gate

_WORDS = Templates(Path(__file__).parent / "signals.txt")
_TITLE = "Out-of-knowledge-base report"
_SHOWN = 10
_QUESTION_LIMIT, _PASSAGE_LIMIT = 300, 180
_NONE = "No such case was measured."
_REVIEWED = {
    Review.Verdict.ANSWERED: "another passage answers it, so it is no leak",
    Review.Verdict.NOT_ANSWERED: "no other passage answers it",
    Review.Verdict.UNSURE: "unsure, so it counts as unanswered",
}


def signals_document(found: SignalsSummary) -> Document:
    """Make the report of a run."""
    names = ", ".join(file.name for file in found.run.manifest.inputs)
    return Document(
        name="ookb",
        title=f"{_TITLE}: {names}" if names else _TITLE,
        subtitle=_WORDS.text("subtitle", found),
        headline=_WORDS.paragraphs("headline", found),
        warnings=_WORDS.paragraphs("warnings", found),
        sections=_sections(found),
        values=found.to_dict(),
    )


def _sections(found: SignalsSummary) -> list[Section | None]:
    run, refusal = found.run, found.run.refusal
    which = _WORDS.text("which_questions", run.calibration)
    plots, what_if = signal_plots(found, which), signals_what_if(found)
    manifest = run.manifest
    return [
        Section("Results", (_figures(found, which),)),
        Section(
            "How to read this",
            (
                *_WORDS.paragraphs("how_to_read", found.leave_out),
                Prose(explained("intervals", "abstention", "leak", "retrieval_miss"), small=True),
            ),
        ),
        None
        if refusal is None
        else Section(
            "Refused: what would work",
            (_WORDS.text("refusal"), Prose(refusal.advice, bullets=True)),
        ),
        Section("Scores and thresholds", tuple(plots)) if plots else None,
        Section("What if the threshold were another?", (what_if,)) if what_if else None,
        Section("The policy and its guarantee", _policy(found)),
        Section("Cases worth reading", tuple(_cases(found)), folded=True),
        replace(Section.of_run(run.settings, manifest.inputs, manifest.created_by), folded=True),
        Section.next_steps(_WORDS.terms("next_steps", found)),
    ]


def _figures(found: SignalsSummary, which: str) -> Figures:
    rates: dict[str, Interval | None] = {
        "left_out": found.left_out.abstention_rate,
        "in_kb": found.in_kb.abstention_rate,
        "misses": found.retrieval_miss_rate,
        "auroc": found.auroc,
        "auroc_found_only": found.auroc_found_only,
        "auroc_unanswerable": found.auroc_unanswerable,
        "unanswerable": found.unanswerable and found.unanswerable.abstention_rate,
        "echo": found.echo and found.echo.pass_rate,
        "shared_words": Interval(found.shared_words, n=found.questions),
    }
    by_policy = {"left_out", "in_kb", "unanswerable", "echo"}
    lines = []
    for line in _WORDS.paragraphs("figures", found, which):
        key, name, meaning = line.split(" :: ", 2)
        rate = rates[key] or Interval()
        note = found.note(rate, by_policy=key in by_policy)
        told = f"{meaning} Not measured: {note}." if note else meaning
        lines.append(Figure(name, rate, told, decimal if key.startswith("auroc") else percent))
    return Figures(tuple(lines))


def _policy(found: SignalsSummary) -> tuple[str | Facts | Section, ...]:
    policy, calibration = found.policy, found.run.calibration
    if policy is None or calibration is None:
        return (_WORDS.text("no_policy"),)
    facts = _WORDS.terms("policy_facts", policy, given=calibration.given_policy)
    limits = Prose(tuple(_WORDS.paragraphs("not_guaranteed", policy)), bullets=True)
    return (
        policy.words,
        Facts(tuple(fact for fact in facts if not isinstance(fact, str))),
        Section("Not guaranteed", (limits,)),
    )


# -- Other thresholds -------------------------------------------------------------------


def signals_what_if(found: SignalsSummary) -> WhatIf | str | None:
    """Collect the cases that the rates are about, without a policy all; None without any.

    Of a cascade of scorers it returns why there is nothing to try.
    """
    run, calibration = found.run, found.run.calibration
    if run.manifest.settings.scorer.stages:
        return CASCADE_WITHOUT_WHAT_IF
    shown = [case for case in _promised(found) if case.counted or calibration is None]
    if not any(case.found or case.missing for case in shown):
        return None
    # Where nothing was held out these are all of them.
    everything = calibration is not None and not calibration.test_questions
    return WhatIf(
        cases=tuple(map(_what_if_case, shown)),
        policy=_gate(run),
        which=_WORDS.text("which_questions", None if everything else calibration),
        leave_one_out=True,
        scale="raw relevance score" if calibration is None else "relevance",
        notes=() if calibration is None else (_WORDS.text("one_threshold"),),
    )


def _promised(found: SignalsSummary) -> Sequence[ScoredCase]:
    """Return the cases that the promise is about; of what is missing the left-out ones without."""
    calibration, cases = found.run.calibration, found.scored
    guarantee = None if calibration is None else calibration.policy.guarantee
    if guarantee is None or guarantee.missing in (None, "left_out"):
        return cases
    kept = cases if guarantee.missing == "both" else [one for one in cases if not one.left_out]
    return (*kept, *found.scored_unanswerable)


def _gate(run: MeasuredRun) -> Policy:
    if run.calibration is not None:
        return relevance_gate(run.calibration.policy)
    settings = run.manifest.settings
    return Policy(scorer=settings.scorer, aggregator=settings.aggregator, relevance_threshold=None)


def _what_if_case(case: ScoredCase) -> WhatIfCase:
    row = case.row
    raw = row.raw_relevance if row.retrieved else None
    return WhatIfCase(
        name=row.case_id,
        question=case.question.question,
        relevance=raw if case.relevance is None else case.relevance,
        confidence=None,
        context_right=case.found or case.elsewhere,
        nothing_retrieved=raw is None,
        # Neither a leak nor, chosen by relevance as it is, a fair sample of what can be answered.
        missed=case.missed or case.elsewhere,
    )


# -- Cases worth reading ----------------------------------------------------------------


def _cases(found: SignalsSummary) -> Iterable[Section]:
    texts = found.run.texts
    missing = [case for case in found.scored if not case.in_kb]
    yield Section(
        "Answer left out, yet most relevant",
        (*_WORDS.paragraphs("leaks", found), _most_relevant(missing, texts)),
    )
    if found.run.unanswerable:
        yield Section(
            "Unanswerable, yet most relevant",
            (_WORDS.text("unanswerable"), _most_relevant(found.scored_unanswerable, texts)),
        )
    least = sorted(
        (case for case in found.scored if case.found), key=lambda one: (one.score, one.row.case_id)
    )
    yield Section(
        "Answer retrieved, yet least relevant",
        (_WORDS.text("false_abstentions"), _first(least, texts)),
    )


def _most_relevant(cases: Iterable[ScoredCase], texts: Mapping[str, str]) -> Cases:
    return _first(sorted(cases, key=lambda case: (-case.score, case.row.case_id)), texts)


def _first(cases: Sequence[ScoredCase], texts: Mapping[str, str]) -> Cases:
    return Cases(tuple(_shown(case, texts) for case in cases[:_SHOWN]), empty=_NONE)


def _shown(case: ScoredCase, texts: Mapping[str, str]) -> Case:
    row = case.row
    wrong = case.passes is not None and case.passes == case.missing and not case.elsewhere
    outcome = {None: "", True: "let through", False: "abstained"}[case.passes]
    notes = [row.case_id]
    if case.relevance is not None:
        notes.append(f"relevance {decimal(case.relevance)}")
    notes.append(f"raw score {decimal(row.raw_relevance if row.retrieved else None)}")
    if case.held_out:
        notes.append("held out")
    if case.review is not None:
        notes.append(f"reviewed: {_REVIEWED[case.review]}")
    parts: list[CaseLine | Passages] = []
    if not case.in_kb and case.question.passage:
        parts.append(CaseLine(one_line(case.question.passage, _PASSAGE_LIMIT), "Left out"))
    parts.append(_passages(case, texts) if row.retrieved else CaseLine("Nothing was retrieved."))
    return Case(
        question=one_line(case.question.question, _QUESTION_LIMIT),
        note=" · ".join(notes),
        parts=tuple(parts),
        tag=f"{outcome} wrongly" if wrong else outcome,
        wrong=wrong,
    )


def _passages(case: ScoredCase, texts: Mapping[str, str]) -> Passages:
    own = case.question.own_passage
    lines = []
    for name, score in zip(case.row.retrieved, case.row.scores, strict=True):
        # A knowledge base may hold more than the run asked about.
        text = texts.get(name, "(text not stored in the run)")
        # A chunk of a served chain is called after its source.
        right = name == own or name.startswith(f"{own}#")
        lines.append(
            CaseLine(one_line(text, _PASSAGE_LIMIT), label=decimal(score), right=right, note=name)
        )
    return Passages(tuple(lines))
