"""What `knowgate calibrate` does for the promise about what passes."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...calibration import SMALLEST_PROBABILITY, Interval
from ...guard.errors import InputError
from ...guard.files import atomic_writer
from ._console import out

if TYPE_CHECKING:
    from ..policies import Calibrated, MeasuredCases, Rates


@dataclass(frozen=True, slots=True)
class SelectiveOptions:
    """What was asked for; see the options of the command."""

    risk: float | None
    coverage: float | None
    delta: float
    share: float
    seed: int
    per_route: bool
    cost: str | None


def calibrate_selective(
    run: Path | None,
    records: Path | None,
    policy_out: Path,
    options: SelectiveOptions,
    report: Path | None,
) -> None:
    """Fit the policy, write it and its report, and say what was promised.

    Raises:
        InputError: an option, the run or the records cannot be used.
    """
    from ..policies import calibrate_records, parse_costs

    _require_options(options)
    require_apart(policy_out, run, records, report)
    found = calibrate_records(
        measured_cases(run, records),
        risk=options.risk,
        coverage=options.coverage,
        delta=options.delta,
        share=options.share,
        seed=options.seed,
        loss="selective" if options.cost is None else parse_costs(options.cost),
        per_route=options.per_route,
    )
    write_calibrated(found, policy_out, report)
    out.print("\n".join(promise_lines(found)), markup=False)
    print_written(policy_out, report)


def measured_cases(run: Path | None, records: Path | None) -> MeasuredCases:
    """The cases of whichever was named.

    Raises:
        InputError: it cannot be used.
    """
    from ..policies import read_records, records_from_run

    if records is not None:
        return read_records(records)
    assert run is not None
    return records_from_run(run)


def write_calibrated(found: Calibrated, policy_out: Path, report: Path | None) -> None:
    """The policy and, where asked for, its report: all of them or none."""
    from ..policies import draw_calibration_report

    drawn = None if report is None else draw_calibration_report(found)
    with undisturbed(), atomic_writer(policy_out) as stream:
        stream.write(found.policy.to_json())
        stream.flush()  # a full disk shows before the report is there
        if drawn is not None and report is not None:
            drawn.write(report)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back until the block is through, so that files go together."""
    came: list[int] = []
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(ValueError):  # not the main thread
            before[number] = signal.signal(number, lambda which, _frame: came.append(which))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def promise_lines(found: Calibrated) -> list[str]:
    """What was guaranteed, for whom, and what was not."""
    policy = found.policy
    lines = [] if policy.guarantee is None else [policy.guarantee.statement]
    lines += [
        f"population: {found.measured.population or 'questions like those of the records'}",
        *(["nor does it say anything about:"] if found.not_promised else []),
        *(f"  - {line}" for line in found.not_promised),
        *(f"careful: {line}" for line in found.warnings),
        f"thresholds: {threshold_words(found)}",
    ]
    if found.rates is not None:
        lines += rate_lines(found.rates)
    return lines


def threshold_words(found: Calibrated) -> str:
    """Where the context is followed, and where memory answers."""
    policy = found.policy
    if not (policy.may_follow or policy.may_answer):
        return "none, it always abstains"
    parts = []
    if policy.may_follow:
        parts.append(f"follow the context from relevance {policy.relevance_threshold:.3f}")
    if policy.may_answer:
        parts.append(f"answer from memory from confidence {policy.confidence_threshold:.3f}")
    return ", else ".join(parts)


def rate_lines(rates: Rates) -> list[str]:
    """How the policy did on the questions kept back."""
    return [
        f"on {_counted(rates.questions, 'question')} kept back: lets through "
        f"{rate_words(rates.coverage)} of cases, of those wrong {rate_words(rates.risk)}",
        f"declined although context or memory was right: {rate_words(rates.false_abstention)}",
    ]


def rate_words(rate: Interval) -> str:
    """A share with its interval."""
    if rate.value is None:
        return "an unknown share (none there)"
    units = _counted(rate.n, "independent unit")
    if rate.low is None or rate.high is None:
        return f"{rate.value:.1%} ({units})"
    return f"{rate.value:.1%} [{rate.low:.1%}, {rate.high:.1%}] ({units})"


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def print_written(policy_out: Path, report: Path | None) -> None:
    """Where the files went."""
    out.print(f"policy → {policy_out}", markup=False)
    if report is not None:
        out.print(f"report → {report}", markup=False)


def require_apart(
    policy_out: Path,
    run: Path | None,
    records: Path | None,
    report: Path | None,
    *,
    old_policy: Path | None = None,
) -> None:
    """Refuse to write over what is read, or two files under one name.

    Raises:
        InputError: an output is an input, or the report is no page.
    """
    if report is not None and report.suffix.lower() not in (".html", ".htm"):
        raise InputError(
            "is not named like a page", where=str(report), hint="name a file that ends in .html"
        )
    written = [policy_out] if report is None else [policy_out, report, report.with_suffix(".json")]
    paths = [path.resolve() for path in written]
    if len(set(paths)) < len(paths):
        raise InputError(
            "policy and the JSON beside the report would be one file",
            where=str(policy_out),
            hint="give the report another name",
        )
    files: tuple[str, ...] = _RUN_FILES
    if run is not None and (run / "plan.json").is_file():
        files += ("policy.json",)  # of a UniKnow run, whose guard it is
    read = set() if old_policy is None else {old_policy.resolve()}
    if records is not None:
        # What measured the records may be told beside them.
        read |= {records.resolve(), records.with_name(f"{records.stem}.manifest.json").resolve()}
    for path in paths:
        inside = run is not None and path.parent == run.resolve() and path.name in files
        if inside or path in read:
            raise InputError(
                "is a file that is read here", where=str(path), hint="choose another one"
            )


_RUN_FILES = (
    "manifest.json", "questions.jsonl", "rows.jsonl", "cases.jsonl", "knowledge.jsonl",
    "calibration.json", "signals.jsonl", "plan.json",
)  # fmt: skip


def _require_options(options: SelectiveOptions) -> None:
    shares = {"--risk": options.risk, "--delta": options.delta, "--coverage": options.coverage}
    for name, value in shares.items():
        if value is not None and not SMALLEST_PROBABILITY <= value <= 1 - SMALLEST_PROBABILITY:
            raise InputError(
                f"must be between 0 and 1, not {value:g}", where=name, hint="name one such as 0.1"
            )
    require_share_and_seed(options.share, options.seed)


def require_share_and_seed(share: float | None, seed: int) -> None:
    """Refuse a share that is none, and a seed below 0.

    Raises:
        InputError: one of both is off its scale.
    """
    if share is not None and not 0 < share <= 1:
        raise InputError(
            f"must be above 0 and at most 1, not {share:g}",
            where="--share",
            hint="name a share such as 0.8",
        )
    if seed < 0:
        raise InputError(f"must not be below 0, not {seed}", where="--seed", hint="name 0 or more")
