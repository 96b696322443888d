"""`knowgate calibrate`: from a run or a records file to a policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from ...calibration.risk import Costs, Coverage, Leak, MaxAbstention, Problem, Risk, RiskTarget
from ...guard.errors import InputError
from ...guard.policy import Missing
from ._app import app
from ._calibration_output import (
    AcceptGenerated,
    MaxFalseAbstention,
    MeasuredBy,
    PolicyOut,
    Records,
    Report,
    Run,
    Share,
    WriteAnyway,
    cascade_lines,
    echo_lines,
    margin_lines,
    promise_lines,
    rate_lines,
    read_calibration_set,
    require_in_range,
    require_one_source,
    review_lines,
    threshold_line,
    write_or_explain,
)
from ._console import out, prints_figures
from ._cost_options import CostAbstention, CostLeak, CostOptions, MissingShare, MostAbstained
from ._judge_options import AbstentionCost, Judge, JudgeCost, JudgeRun, OnFailure

if TYPE_CHECKING:
    from ..policies import CalibrationSet

_DEFAULT_RISK = 0.05
# As in `fit_policy`: below that no number of questions helps.
_LEAST = 1e-9


class MissingAnswers(StrEnum):
    """Which questions must not pass."""

    UNANSWERABLE = "unanswerable"
    LEFT_OUT = "left-out"
    BOTH = "both"


class Promise(StrEnum):
    """What is to be promised."""

    LEAK = "leak"
    SELECTIVE = "selective"


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options that say what is to be promised."""

    promise: Promise | None
    risk: float | None
    delta: float
    share: float
    answer_from_memory: float | None
    per_route: bool
    coverage: float | None
    cost: str | None
    report: Path | None
    records: Path | None
    scorer: str | None
    max_false_abstention: float
    accept_generated: bool
    write_anyway: bool
    judge: Judge
    or_run: tuple[Path, ...]
    missing: MissingAnswers | None = None
    costs: CostOptions = field(default_factory=CostOptions)

    def measured(self, run: Path | None) -> list[CalibrationSet]:
        """The records of the run or file, and those of the other runs to choose from.

        Raises:
            InputError: a run cannot be used, or options do not go together.
        """
        if self.or_run and (self.judge.run is not None or run is None):
            raise InputError(
                "goes with --run, without --judge-run",
                where="--or-run",
                hint="calibrate a cascade, or a records file, by itself",
            )
        first = read_calibration_set(run, self.records, self.scorer)
        others = [read_calibration_set(one, None) for one in self.or_run]
        return [self.judge.added_to(first), *others]

    def require_in_range(self) -> None:
        """Reject numbers that are out of range.

        Raises:
            InputError: names the option.
        """
        shares = {"--risk": self.risk, "--delta": self.delta, "--coverage": self.coverage}
        for name, value in shares.items():
            _require_inside(name, value)
        require_in_range(self.share, self.max_false_abstention)
        memory = self.answer_from_memory
        if memory is not None and not 0 < memory <= 1:
            raise InputError(
                f"must be above 0 and at most 1, not {memory:g}",
                where="--answer-from-memory",
                hint="name a confidence such as 0.7",
            )

    def bound(self, *, leaves_out: bool, from_records: bool) -> Risk:
        """What the policy is fitted to.

        Args:
            leaves_out: whether a leak can be measured, which is then the default.
            from_records: whether that is so of a records file.

        Raises:
            InputError: options that do not go together.
        """
        from ._costs import parse_costs

        chosen = self.costs.risk(_CASES[self.missing])
        if chosen is not None:
            self._reject_promise()
            return chosen
        promise = self.promise or (Promise.LEAK if leaves_out else Promise.SELECTIVE)
        risk = _DEFAULT_RISK if self.risk is None else self.risk
        if promise is Promise.LEAK:
            other = () if from_records else ("records",)
            self._reject("per_route", "coverage", "cost", "report", *other, promise=promise)
            return Leak(risk, _CASES[self.missing])
        self._reject("answer_from_memory", "missing", promise=promise)
        if self.coverage is None:
            losses = None if self.cost is None else parse_costs(self.cost)
            return RiskTarget.of_errors(risk, losses, per_route=self.per_route)
        if self.risk is not None:
            raise InputError(
                "are mutually exclusive", where="--risk, --coverage", hint="name one of both"
            )
        for name, given in (("--per-route", self.per_route), ("--cost", self.cost is not None)):
            if given:
                raise InputError(
                    "bounds what --risk names, and does not go with --coverage",
                    where=name,
                    hint="leave one of both out",
                )
        return Coverage(self.coverage)

    def _reject_promise(self) -> None:
        for name in ("risk", "promise", "coverage", "cost", "per_route", "answer_from_memory",
                     "report"):  # fmt: skip
            if getattr(self, name) not in (None, False):
                raise InputError(
                    "does not go with --cost-leak or --max-abstention, which promise nothing",
                    where=f"--{name.replace('_', '-')}",
                    hint="leave one of both out",
                )

    def _reject(self, *names: str, promise: Promise) -> None:
        other = Promise.LEAK if promise is Promise.SELECTIVE else Promise.SELECTIVE
        for name in names:
            if getattr(self, name) not in (None, False):
                raise InputError(
                    f"does not go with the promise {promise.value!r}",
                    where=f"--{name.replace('_', '-')}",
                    hint=f"leave it out, or promise something else (--promise {other.value})",
                )


def _require_inside(name: str, value: float | None) -> None:
    if value is not None and not _LEAST <= value <= 1 - _LEAST:
        raise InputError(
            f"must be between 0 and 1, not {value:g}", where=name, hint="name one such as 0.1"
        )


_CASES: dict[MissingAnswers | None, Missing | None] = {
    None: None,
    MissingAnswers.UNANSWERABLE: "unanswerable",
    MissingAnswers.LEFT_OUT: "left_out",
    MissingAnswers.BOTH: "both",
}
_MISSING = typer.Option(
    help="leak: the promise is about your own unanswerable questions (`measure --unanswerable`), "
    "about questions whose source was left out, or about each of both. By default about your "
    "own where the run has any; the others are reported beside it."
)
_OR_RUN = typer.Option(
    help="leak: another run on the same questions, measured by another scorer; repeat it for each. "
    "δ is divided among all runs, and the policy is of the one that abstains least from what it "
    "could answer."
)
_COVERAGE = typer.Option(
    help="selective: instead of --risk, the share of cases to let through; the bound is then what "
    "can be certified for it."
)
_COST = typer.Option(
    help="selective: bound the mean cost instead of the share of wrong replies, e.g. "
    "wrong_answer=1,false_abstention=0.2,wrong_follow=1."
)


@app.command()
@prints_figures
def calibrate(
    policy_out: PolicyOut,
    run: Run = None,
    records: Records = None,
    scorer: MeasuredBy = None,
    promise: Annotated[
        Promise | None,
        typer.Option(
            help="leak: at most α of unanswerable questions pass. selective: at most α of what "
            "passes is answered wrongly. By default leak for an ookb run, else selective."
        ),
    ] = None,
    risk: Annotated[
        float | None,
        typer.Option(help=f"Bound α of the promise.  [default: {_DEFAULT_RISK}]"),
    ] = None,
    delta: Annotated[
        float, typer.Option(help="Probability δ that the bound fails by bad luck in the draw.")
    ] = 0.1,
    missing: Annotated[MissingAnswers | None, _MISSING] = None,
    share: Share = 1.0,
    answer_from_memory: Annotated[
        float | None,
        typer.Option(
            help="leak: where the context does not pass, answer from the model's own knowledge "
            "from this confidence on, above 0 and at most 1. Declared by you, not certified; by "
            "default never."
        ),
    ] = None,
    per_route: Annotated[
        bool,
        typer.Option("--per-route", help="selective: bound each route's risk as well."),
    ] = False,
    coverage: Annotated[float | None, _COVERAGE] = None,
    cost: Annotated[str | None, _COST] = None,
    or_run: Annotated[list[Path] | None, _OR_RUN] = None,
    judge_run: JudgeRun = None,
    judge_cost: JudgeCost = None,
    abstention_cost: AbstentionCost = None,
    on_judge_failure: OnFailure = None,
    report: Report = None,
    max_false_abstention: MaxFalseAbstention = Problem.MAX_FALSE_ABSTENTION,
    accept_generated: AcceptGenerated = False,
    write_anyway: WriteAnyway = False,
    cost_leak: CostLeak = None,
    cost_abstention: CostAbstention = None,
    missing_share: MissingShare = None,
    max_abstention: MostAbstained = None,
) -> None:
    """Choose the thresholds that keep the risk below the bound, with a guarantee.

    All questions count, and each is reported as the others would have it. Exit code 3,
    and no policy, where no threshold meets the bound, no signal tells what can be answered,
    too much of it would be abstained from, the retriever misses too much, or rules or a model
    made the questions; it then says what would work. Where nothing useful can be promised,
    `--cost-leak 5` or `--max-abstention 0.3` chooses a threshold without a guarantee.

    Example: `knowgate calibrate --run run --risk 0.1 --delta 0.1 --out policy.json`
    """
    asked = _Asked(
        promise, risk, delta, share, answer_from_memory, per_route, coverage, cost, report,
        records, scorer, max_false_abstention, accept_generated, write_anyway,
        Judge(judge_run, judge_cost, abstention_cost, on_judge_failure),
        tuple(or_run or ()), missing,
        CostOptions(cost_leak, cost_abstention, missing_share, max_abstention),
    )  # fmt: skip
    _calibrate(asked, run, policy_out)


def _calibrate(asked: _Asked, run: Path | None, policy_out: Path) -> None:
    from ..policies import calibrate_records, require_apart

    require_one_source(run, asked.records)
    asked.require_in_range()
    for one in (run, asked.judge.run, *asked.or_run):
        require_apart(policy_out, run=one, records=asked.records, report=asked.report)
    measured = asked.measured(run)
    leaves_out = measured[0].leaves_out
    bound = asked.bound(
        leaves_out=leaves_out, from_records=leaves_out and asked.records is not None
    )
    if asked.or_run and not isinstance(bound, Leak):
        raise InputError(
            "one of several scorers is chosen for a leak",
            where="--or-run",
            hint="leave it out, or promise a leak (--promise leak)",
        )
    found = calibrate_records(
        measured,
        bound,
        delta=asked.delta,
        share=asked.share,
        counted=True,
        confidence_threshold=asked.answer_from_memory,
        max_false_abstention=asked.max_false_abstention,
    ).accepting(*["generated"] * asked.accept_generated)
    lines = [
        *([f"chosen of {len(measured)} runs: {found.measured.source}"] if asked.or_run else []),
        *promise_lines(found, anyway=asked.write_anyway),
        threshold_line(found),
        *cascade_lines(found),
        *margin_lines(found),
        *echo_lines(found),
        *rate_lines(found),
        *review_lines(found),
    ]
    write_or_explain(found, lines, policy_out, asked.report, anyway=asked.write_anyway)
    # The run's own report knows nothing of a second run.
    if (
        run is not None
        and isinstance(found.risk, Leak | Costs | MaxAbstention)
        and asked.judge.run is None
    ):
        out.print(f"next: knowgate report {quote(found.measured.source)}", markup=False)
