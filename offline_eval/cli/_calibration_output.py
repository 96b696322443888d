"""What `calibrate` and `recalibrate` read and print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...calibration import Interval
from ...calibration.risk import Costs, MaxAbstention
from ...guard.errors import InputError
from ...guard.signals.relevance import load_scorer
from ._console import err, out, print_figures

if TYPE_CHECKING:
    from ..policies import Calibrated, CalibrationSet

Run = Annotated[Path | None, typer.Option(help="A finished run folder.")]
Records = Annotated[
    Path | None,
    typer.Option(
        help="Instead of a run, JSON lines: one per question and case, with question_id, "
        "relevance, confidence, context_right, closed_book_right."
    ),
]
MeasuredBy = Annotated[
    str | None,
    typer.Option(
        help="With --records: the scorer that measured them, by name or folder, to check that it "
        'was not tuned on these questions. Each record then needs its "question".'
    ),
]
PolicyOut = Annotated[Path, typer.Option("--out", help="Where policy.json goes.")]
Share = Annotated[
    float,
    typer.Option(
        help="Share of the questions to fit on; the rest is held out for reporting. With all of "
        "them the report is about the questions that the policy was calibrated on."
    ),
]
MaxFalseAbstention = Annotated[
    float,
    typer.Option(
        help="Write no policy that abstains from a larger share of the questions that it could "
        "answer, among those that it was calibrated on (or that were held out)."
    ),
]
WriteAnyway = Annotated[
    bool,
    typer.Option("--write-anyway", help="Write the policy whatever speaks against it."),
]
AcceptGenerated = Annotated[
    bool,
    typer.Option(
        "--accept-generated",
        help="Also write a policy when rules or a model made more than a tenth of the questions; "
        "it is marked, and promises nothing about people's.",
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(help="selective: write this page (.html), with plots, and JSON beside it."),
]


def read_calibration_set(
    run: Path | None, records: Path | None, scorer: str | None = None
) -> CalibrationSet:
    """Read the run or the records file, whichever is given.

    Args:
        run: knows its scorer.
        records: file.
        scorer: that measured the records.

    Raises:
        InputError: both or neither are given, or it cannot be used.
    """
    from ..policies import CalibrationSet, read_records

    require_one_source(run, records)
    if records is not None:
        return read_records(records, None if scorer is None else load_scorer(scorer))
    if scorer is not None:
        raise InputError("is for --records", where="--scorer", hint="leave it out: a run knows it")
    assert run is not None
    return CalibrationSet.of_run(run)


def require_one_source(run: Path | None, records: Path | None) -> None:
    """Reject two sources, or none.

    Raises:
        InputError: both or neither are given.
    """
    if (run is None) == (records is None):
        raise InputError("exactly one is needed", where="--run, --records", hint="name one of both")


_LEAST_SHARE = 1e-9


def require_in_range(share: float, max_false_abstention: float) -> None:
    """Reject a share that is out of range.

    Raises:
        InputError: one of them is.
    """
    for name, value in (("--share", share), ("--max-false-abstention", max_false_abstention)):
        if not _LEAST_SHARE <= value <= 1:
            raise InputError(
                f"must be above 0 and at most 1, not {value:g}",
                where=name,
                hint="name a share such as 0.8",
            )


def pair_line(found: Calibrated, *, refused: bool) -> str:
    """What is let through of what is missing, and abstained from of what is there."""
    guarantee = found.policy.guarantee
    if isinstance(found.risk, Costs | MaxAbstention):
        return _chosen_line(found)
    if guarantee is None or not guarantee.certified:
        return "abstains from everything: nothing could be certified"
    if refused:
        return (
            f"nothing is promised: a policy at {100 * guarantee.risk:.3g}% would abstain from "
            f"about {rate_text(found.false_abstention)} of what it could answer"
        )
    sure = f"(confidence {100 * (1 - guarantee.delta):g}%)"
    abstains = f"abstains from about {rate_text(found.false_abstention)}"
    if found.leak_rates is not None:
        return (
            f"lets through at most {100 * guarantee.risk:.3g}% of {_MISSING[guarantee.missing]} "
            f"{sure}; "
            f"{abstains} of what is there"
        )
    if any(risk.kind == "cost" for risk in guarantee.risks):
        return f"costs at most {guarantee.risk:g} per question {sure}; {abstains} of what it knows"
    return (
        f"answers at most {100 * guarantee.risk:.3g}% of what it lets through wrongly {sure}; "
        f"{abstains} of what it could answer"
    )


def _chosen_line(found: Calibrated) -> str:
    """What a threshold without a guarantee lets through, abstains from and costs."""
    leaks = [f"{rate_text(rate)} of {_MISSING_KIND[case]}" for case, rate in found.leaks.items()]
    cost = found.cost
    price = "" if cost is None else f", which costs about {cost:.3g} per question"
    return (
        f"lets through about {' and '.join(leaks)}; abstains from about "
        f"{rate_text(found.false_abstention)} of what is there{price}; nothing is guaranteed"
    )


_MISSING_KIND = {"left_out": "left-out questions", "unanswerable": "your unanswerable ones"}
_MISSING = {
    None: "what is missing",
    "left_out": "what is missing",
    "unanswerable": "questions like your unanswerable ones",
    "both": "what is missing, and of questions like your unanswerable ones",
}


def promise_lines(found: Calibrated, *, anyway: bool) -> list[str]:
    """What is guaranteed, for whom, and what is not.

    Args:
        found: by a calibration.
        anyway: whether it is written whatever speaks against it; else one with a problem is not,
            and promises nothing.
    """
    policy = found.policy
    refused = bool(found.problems) and not anyway
    lines = [pair_line(found, refused=refused)]
    if policy.note and not refused:
        lines.append(policy.note)
    if policy.guarantee is not None and policy.guarantee.certified and not refused:
        lines.append(policy.guarantee.statement)
    if found.learn and not refused:
        lines.append(
            f"population: {found.measured.population or 'questions like those of the records'}"
        )
    lines += [
        *(["nor does it say anything about:"] if found.not_promised else []),
        *(f"  - {line}" for line in found.not_promised),
        *(f"careful: {line}" for line in found.warnings),
    ]
    return lines


def threshold_line(found: Calibrated) -> str:
    """From which signals on the context is followed, and memory answers."""
    policy, parts = found.policy, []
    if policy.may_follow:
        parts.append(f"follow the context from relevance {policy.relevance_threshold:.3f}")
    if policy.may_answer:
        declared = (
            ""
            if found.learn
            else (" (declared, not certified; serving it takes a confidence estimator)")
        )
        parts.append(
            f"answer from memory from confidence {policy.confidence_threshold:.3f}{declared}"
        )
    return f"thresholds: {', else '.join(parts) or 'none, it always abstains'}"


def cascade_lines(found: Calibrated) -> list[str]:
    """Where the costly scorer is asked, and what each width of the band would cost."""
    band = found.cascade
    if band is None:
        return []
    costs = "; ".join(
        f"{option.reach:.3g}: asks {option.asked:.0%}, abstains from "
        f"{option.false_abstention:.0%}, cost {option.cost:,.0f}"
        for option in band.options
    )
    lines = [f"width of the band, chosen on {band.learned_on} questions: {costs}"]
    if band.rule is not None:
        fallback = "never" if band.fallback is None else f"from {band.fallback:.4g} on"
        lines.append(
            f"cascade: the costly scorer is asked where the cheap one gives from "
            f"{band.rule.threshold:.4g} to {band.rule.threshold + band.reach:.4g}, "
            f"{band.asked:.0%} of these questions; where it fails, they pass {fallback}"
        )
    elif not band.reach:
        lines.append("cascade: the cheap scorer alone costs least, so the policy is of that one")
    return lines


def margin_lines(found: Calibrated) -> list[str]:
    """Which passages are left out of the prompt; nothing where all are kept."""
    dropped = found.left_out_of_prompts()
    if dropped is None:
        return []
    sets = len(found.measured.kept_sets)
    return [
        f"passages: {dropped:.0%} are left out of the prompt, those more than "
        f"{found.policy.kept_margin:.3f} below the second best; none of {sets} questions lost its "
        f"passage, a further one does with probability 1/{sets + 1} at most"
    ]


def echo_lines(found: Calibrated) -> list[str]:
    """How many left-out questions pass when a passage repeats them, where that was measured."""
    asked = len(found.measured.echoes)
    if not asked:
        return []
    return [
        f"passes when a passage repeats the question: {found.echoes_passing()} of {asked} "
        "left-out questions"
    ]


def rate_lines(found: Calibrated) -> list[str]:
    """How the policy does, and on which questions."""
    judged = found.judged
    if found.leak_rates is not None:
        verb = "keeps the context from" if found.policy.may_answer else "abstains from"
        leak = found.leak_rates
        own = leak.unanswerable_abstention
        yours = [f"{rate_text(own)} of your unanswerable ones"] if own.n else []
        parts = [*yours, f"{rate_text(leak.left_out_abstention)} of left-out ones"]
        return [
            f"on questions {judged}: {verb} {', from '.join(parts)}, and from "
            f"{rate_text(leak.false_abstention)} of those it could answer"
        ]
    rates = found.rates
    if rates is None:
        return []
    return [
        f"on {_counted(rates.questions, 'question')} {judged}: lets through "
        f"{rate_text(rates.coverage)} of cases, of those wrong {rate_text(rates.risk)}",
        "abstains although context or memory was right: " + rate_text(rates.false_abstention),
    ]


def review_lines(found: Calibrated) -> list[str]:
    """How many left-out questions were reviewed, and how many further reviews are worth it."""
    outlook = found.reviews
    return [] if outlook is None else outlook.lines(found.measured.source)


def rate_text(rate: Interval) -> str:
    """A share with its interval."""
    if rate.value is None:
        return "an unknown share (none there)"
    units = _counted(rate.n, "independent unit")
    if rate.low is None or rate.high is None:
        return f"{rate.value:.1%} ({units})"
    return f"{rate.value:.1%} [{rate.low:.1%}, {rate.high:.1%}] ({units})"


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def write_or_explain(
    found: Calibrated, lines: list[str], policy_out: Path, report: Path | None, *, anyway: bool
) -> None:
    """Write the policy and print the lines, or say why it should not serve and what would work.

    Raises:
        typer.Exit: with code 3, if the policy has a problem and `anyway` is False.
    """
    from ..policies import write_calibrated

    written = write_calibrated(found, policy_out, report, anyway=anyway)
    print_figures(_figures(found, policy_out if written else None))
    out.print("\n".join(lines), markup=False)
    for problem in found.problems:
        err.print(f"problem: {problem.what}", markup=False)
        if problem.kind == "generated":
            err.print(f"  next: {problem.hint}", markup=False)
    for line in (*_shortfall_lines(found), *(f"  next: {one}" for one in found.advice)):
        err.print(line, markup=False)
    if not written:
        err.print(f"{policy_out} was not written (--write-anyway writes it).", markup=False)
        raise typer.Exit(3)
    out.print(f"policy → {policy_out}", markup=False)
    if report is not None:
        out.print(f"report → {report}", markup=False)


def _figures(found: Calibrated, written: Path | None) -> dict[str, Any]:
    """Return what `--json` prints; `written` is where the policy is, None if nowhere."""
    policy, guarantee = found.policy, found.policy.guarantee
    certified = guarantee is not None and guarantee.certified
    return {
        "policy": written,
        "certified": certified,
        "statement": guarantee.statement if guarantee and certified and written else None,
        "risk": None if guarantee is None else guarantee.risk,
        "delta": None if guarantee is None else guarantee.delta,
        "questions": found.measured.questions,
        "relevance_threshold": policy.relevance_threshold,
        "confidence_threshold": policy.confidence_threshold,
        "rates": found.leak_rates or found.rates,
        "generated": policy.generated,
        "note": policy.note or None,
        "cost": found.cost,
        "reviews": found.reviews,
        "smallest_risk": found.smallest_risk(),
        "warnings": found.warnings,
        "problems": [{"what": one.what, "hint": one.hint} for one in found.problems],
        "advice": found.advice,
    }


def _shortfall_lines(found: Calibrated) -> list[str]:
    """Where the questions went, where they did not suffice."""
    guarantee = found.policy.guarantee
    if guarantee is None or guarantee.certified:
        return []
    return [f"  questions: {', '.join(found.spent())}"]
