"""What `knowgate calibrate` prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ...calibration import Interval
from ...calibration.risk import Costs, MaxAbstention
from ._console import err, out, print_figures

if TYPE_CHECKING:
    from ...guard.policy import Policy
    from ..policies import Calibrated


def calibration_lines(found: Calibrated, *, anyway: bool) -> list[str]:
    """Say what is promised, by which thresholds, and how the policy does.

    Args:
        found: by a calibration.
        anyway: whether it is written whatever speaks against it; else one with a problem is not,
            and promises nothing.
    """
    return [
        *_promise_lines(found, anyway=anyway),
        _threshold_line(found),
        *_cascade_lines(found),
        *_margin_lines(found),
        *echo_lines(found),
        *_rate_lines(found),
        *([] if found.reviews is None else found.reviews.lines(found.measured.source)),
    ]


def change_lines(old: Policy, new: Policy, rates: tuple[Any, Any] | None) -> list[str]:
    """Say what changed against the old policy.

    Args:
        old, new: the policies.
        rates: of both on the same questions, where they are known.
    """
    lines = [
        "changed, each on its own calibrators' scale:",
        *(
            f"  - {name} threshold: {_threshold(getattr(old, f'{name}_threshold'))} → "
            f"{_threshold(getattr(new, f'{name}_threshold'))}"
            for name in ("relevance", "confidence")
        ),
    ]
    if rates is not None:
        before, after = rates
        for what, was, now in (
            ("lets through, same questions", before.coverage, after.coverage),
            ("of those wrong", before.risk, after.risk),
        ):
            lines.append(f"  - {what}: {rate_text(was)} → {rate_text(now)}")
    return lines


def _threshold(value: float | None) -> str:
    return "never" if value is None else f"{value:.3f}"


def _pair_line(found: Calibrated, *, refused: bool) -> str:
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


def _promise_lines(found: Calibrated, *, anyway: bool) -> list[str]:
    """What is guaranteed, for whom, and what is not."""
    policy = found.policy
    refused = bool(found.problems) and not anyway
    lines = [_pair_line(found, refused=refused)]
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


def _threshold_line(found: Calibrated) -> str:
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


def _cascade_lines(found: Calibrated) -> list[str]:
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


def _margin_lines(found: Calibrated) -> list[str]:
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


def _rate_lines(found: Calibrated) -> list[str]:
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
    guarantee = found.policy.guarantee
    if guarantee is not None and not guarantee.certified:
        err.print(f"  questions: {', '.join(found.spent())}", markup=False)
    for advice in found.advice:
        err.print(f"  next: {advice}", markup=False)
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
