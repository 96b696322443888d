"""What `knowgate calibrate` prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ...calibration import Interval
from ...calibration.risk import Costs, MaxAbstention
from ..report.prose import Templates
from ._console import err, out, print_figures

if TYPE_CHECKING:
    from ...guard.policy import Policy
    from ..policies import Calibrated


_TEXTS = Templates(Path(__file__).with_name("calibrated.txt"))


def calibration_lines(found: Calibrated, *, anyway: bool) -> list[str]:
    """Say what is promised, by which thresholds, and how the policy does.

    Args:
        found: by a calibration.
        anyway: whether it is written whatever speaks against it; else one with a problem is not,
            and promises nothing.
    """
    refused = bool(found.problems) and not anyway
    chosen = isinstance(found.risk, Costs | MaxAbstention)
    reviews = [] if found.reviews is None else found.reviews.lines(found.measured.source)
    return [*_lines("calibrated", found, refused, chosen), *reviews]


def change_lines(old: Policy, new: Policy, rates: tuple[Any, Any] | None) -> list[str]:
    """Say what changed against the old policy.

    Args:
        old, new: the policies.
        rates: of both on the same questions, where they are known.
    """
    return _lines("changed", old, new, rates)


def rate_text(rate: Interval) -> str:
    """A share with its interval."""
    return _TEXTS.text("rate", rate)


def _lines(macro: str, *given: Any) -> list[str]:
    """What a macro writes; what begins with a dash is below the line before."""
    lines = _TEXTS.paragraphs(macro, *given)
    return [f"  {line}" if line.startswith("- ") else line for line in lines]


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
    out.print("\n".join(lines))
    for problem in found.problems:
        err.print(f"problem: {problem.what}")
        if problem.kind == "generated":
            err.print(f"  next: {problem.hint}")
    guarantee = found.policy.guarantee
    if guarantee is not None and not guarantee.certified:
        err.print(f"  questions: {', '.join(found.spent())}")
    for advice in found.advice:
        err.print(f"  next: {advice}")
    if not written:
        err.print(f"{policy_out} was not written (--write-anyway writes it).")
        raise typer.Exit(3)
    out.print(f"policy → {policy_out}")
    if report is not None:
        out.print(f"report → {report}")


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
        **({} if (mix := found.measured.mix) is None else {"mix": mix.to_dict()}),
    }
