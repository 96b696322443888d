"""`knowgate calibrate`: from runs or a records file to a policy, or to what one would take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from shlex import quote
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer
from pydantic import Field

from ...calibration import Interval
from ...calibration.risk import Costs, Coverage, Leak, MaxAbstention, RiskTarget
from ...calibration.risk.fit import Problem
from ...calibration.risk.risks import LossTable, Risk
from ...guard.artefacts import Missing
from ...guard.errors import InputError
from ...guard.policy import Policy
from ..report.prose import Templates
from ..run.questions import LeaveOut
from ._console import err, out, print_figures
from ._options import (
    Pairs,
    parse_pairs,
    prints_figures,
    reject,
    require_one,
    require_share,
    required,
)

if TYPE_CHECKING:
    from ..policies import Calibrated
    from ..policies.records import CalibrationSet

_TEXTS = Templates(Path(__file__).with_name("calibrated.txt"))
_BELOW = ("- ", "questions: ", "next: ")
_DEFAULT_RISK, _DEFAULT_DELTA = 0.05, 0.1
_PLAN, _NO_PROMISE = "With --dry-run", "Without a guarantee"


# Which questions must not pass.
MissingAnswers = Literal["unanswerable", "left-out", "both"]


_PROMISES = {
    "leak": "--promise leak (by default where sources are left out)",
    "selective": "--promise selective (by default where no sources are left out)",
    "coverage": "--coverage",
    "cost": "--cost leak=…, which promises nothing",
    "max_abstention": "--max-abstention, which promises nothing",
    "like": "--like, whose policy says what is promised",
}
# Option → what is promised with it; any other goes with everything.
_GOES_WITH: Mapping[str, tuple[str, ...]] = {
    "promise": ("leak", "selective", "coverage"),
    "risk": ("leak", "selective"),
    "delta": ("leak", "selective", "coverage", "cost", "max_abstention"),
    "missing": ("leak", "cost", "max_abstention"),
    "answer_from_memory": ("leak",),
    "mix": ("leak",),
    "per_route": ("selective",),
    "coverage": ("coverage",),
    "cost": ("selective", "cost"),
    "max_abstention": ("max_abstention",),
    "report": ("selective", "coverage", "like"),
}


class CascadeOptions(Pairs):
    """A costly scorer behind the cheap one, as `--cascade` names it."""

    run: Path | None = None
    strict: Path | None = None
    cost: float | None = Field(None, ge=0, allow_inf_nan=False)
    abstention_cost: float | None = Field(None, ge=0, allow_inf_nan=False)
    on_failure: Literal["abstain", "cheap"] | None = None

    def added_to(self, measured: CalibrationSet) -> CalibrationSet:
        """Return the records with the costly scorer's verdicts, and what it costs.

        Raises:
            InputError: there are costs, or a strict reading, without a costly scorer.
        """
        if self.run is not None:
            strict = None if self.strict is None else _read(self.strict)
            measured = measured.with_judge(_read(self.run), strict)
        given = self.model_dump(exclude={"run"}, exclude_none=True)
        if given and (measured.cascade is None or (self.run is None and "strict" in given)):
            what = "is for a costly scorer, and none measured these questions"
            hint = "name a run of the costly scorer with run=RUN"
            raise InputError(what, where="--cascade", hint=hint)
        names = {"cost": "judge_cost"}
        changes = {names.get(name, name): given[name] for name in given if name != "strict"}
        cascade = measured.cascade and replace(measured.cascade, **changes)
        return replace(measured, cascade=cascade)


class _Asked(SimpleNamespace):
    """The options of the command, by the names of its parameters."""

    @property
    def policy_out(self) -> Path:
        """Where the policy goes."""
        path: Path = required(self.out_path, "--out", "name the file, e.g. policy.json")
        return path

    @property
    def fitting(self) -> dict[str, Any]:
        """How any policy is fitted."""
        most = self.max_false_abstention
        return {"share": self.share, "max_false_abstention": most, "counted": True}

    def bound(self, *, leaves_out: bool) -> Risk:
        """Return what the policy is fitted to.

        Args:
            leaves_out: whether a leak can be measured, which is then the default.

        Raises:
            InputError: options that do not go together, or are out of range.
        """
        promise = self.promise or ("leak" if leaves_out else "selective")
        if self.cost is not None and "leak" in self.cost:
            promise = "cost"
        elif self.max_abstention is not None:
            promise = "max_abstention"
        elif self.coverage is not None and promise == "selective":
            promise = "coverage"
        self.require_fitting(promise)
        risk = _DEFAULT_RISK if self.risk is None else self.risk
        missing = cast("Missing | None", self.missing and self.missing.replace("-", "_"))
        if promise == "leak":
            if not leaves_out:
                # Records of left-out questions may promise a leak; others say nothing of one.
                self.reject("records", why=f"does not go with {_PROMISES[promise]}")
            return Leak(risk, missing)
        if promise == "cost":
            costs = parse_pairs("--cost", self.cost, Costs, apart=("missing",))
            return replace(costs, missing=missing)
        if promise == "max_abstention":
            return MaxAbstention(self.max_abstention, missing)
        if promise == "coverage":
            return Coverage(self.coverage)
        losses = None if self.cost is None else parse_pairs("--cost", self.cost, LossTable)
        if losses is not None and not any(astuple(losses)):
            what = "nothing costs anything, so that every policy would do"
            hint = "write e.g. wrong_answer=1,false_abstention=0.2"
            raise InputError(what, where="--cost", hint=hint)
        return RiskTarget.of_errors(risk, losses, per_route=self.per_route)

    def require_fitting(self, promise: str) -> None:
        """Reject options that are for another promise.

        Raises:
            InputError: names the first.
        """
        others = [name for name, known in _GOES_WITH.items() if promise not in known]
        self.reject(*others, why=f"does not go with {_PROMISES[promise]}")

    def reject(self, *names: str, why: str, hint: str = "leave one of both out") -> None:
        """Reject those of the options that were given."""
        reject({name: getattr(self, name) for name in names}, why, hint)

    def measured(self, *, old_policy: Path | None = None) -> list[CalibrationSet]:
        """Read the records of all runs, or of the file.

        Raises:
            InputError: not exactly one source is named, it cannot be used, or would be
                overwritten.
        """
        from ...guard.signals.relevance import load_scorer
        from ..policies.records_file import read_records
        from ..policies.writing import require_apart

        require_one(self.records, self.run, where="--run, --records")
        runs = filter(None, (*self.run, self.cascade.run, self.cascade.strict))
        inputs = self.records, old_policy
        require_apart(self.policy_out, runs=runs, report=self.report, inputs=inputs)
        if len(self.run) > 1:
            self.reject("cascade", why="goes with one --run", hint="calibrate a cascade by itself")
        if self.records is not None:
            scorer = None if self.scorer is None else load_scorer(self.scorer)
            return [self.cascade.added_to(read_records(self.records, scorer))]
        self.reject("scorer", why="is for --records", hint="leave it out: a run knows it")
        first, *others = map(_read, self.run)
        return [self.cascade.added_to(first), *others]


def _read(run: Path) -> CalibrationSet:
    from ..policies.records import CalibrationSet

    return CalibrationSet.of_run(run)


@prints_figures
def calibrate(
    *,
    out_path: Path | None = None,
    run: list[Path] | None = None,
    records: Path | None = None,
    scorer: str | None = None,
    like: Path | None = None,
    promise: Literal["leak", "selective"] | None = None,
    risk: float | None = None,
    delta: float | None = None,
    missing: MissingAnswers | None = None,
    share: float = 1.0,
    answer_from_memory: float | None = None,
    per_route: bool = False,
    coverage: float | None = None,
    cost: Annotated[str | None, typer.Option(metavar="NAME=COST")] = None,
    max_abstention: Annotated[float | None, typer.Option(rich_help_panel=_NO_PROMISE)] = None,
    cascade: CascadeOptions,
    mix: bool = False,
    report: Path | None = None,
    max_false_abstention: float = Problem.MAX_FALSE_ABSTENTION,
    accept_generated: bool = False,
    write_anyway: bool = False,
    dry_run: Annotated[bool, typer.Option(rich_help_panel=_PLAN)] = False,
    questions: Annotated[Path | None, typer.Option(rich_help_panel=_PLAN)] = None,
    unanswerable: Annotated[Path | None, typer.Option(rich_help_panel=_PLAN)] = None,
    leave_out: Annotated[LeaveOut, typer.Option(rich_help_panel=_PLAN)] = LeaveOut.SOURCE,
) -> None:
    """Choose the thresholds that keep the risk below the bound, with a guarantee.

    All questions count, and each is reported as the others would have it. Exit code 3,
    and no policy, where no threshold meets the bound, no signal tells what can be answered,
    too much of it would be abstained from, the retriever misses too much, or rules or a model
    made the questions; it then says what would work. Where nothing useful can be promised,
    `--cost leak=5` or `--max-abstention 0.3` chooses a threshold without a guarantee.

    With `--dry-run --questions FILE` it says beforehand what can be certified; with
    `--like OLD` it keeps an older policy's promise up to date.

    Example: `knowgate calibrate --run run --risk 0.1 --delta 0.1 --out policy.json`

    Args:
        out_path: Where policy.json goes.
        run: A finished run folder. leak: name the runs of several scorers on the same
            questions to choose the one that abstains least; δ is divided among them.
        records: Instead of a run, JSON lines: one per question and case, with question_id,
            relevance, confidence, context_right, closed_book_right.
        scorer: With --records: the scorer that measured them, by name or folder, to check that
            it was not tuned on these questions. Each record then needs its "question".
        like: Take bound, δ, loss and routes of this older policy, and measure them on newer
            questions by the same scorer.
        promise: leak: at most α of unanswerable questions pass. selective: at most α of what
            passes is answered wrongly. By default leak for a run of `knowgate measure`, else
            selective.
        risk: Bound α of the promise.  [default: 0.05]
        delta: Probability δ that the bound fails by bad luck in the draw.  [default:
            0.1]
        missing: leak: the promise is about your own unanswerable questions (`measure
            --unanswerable`), about questions whose source was left out, or about each of both.
            By default about your own where the run has any; the others are reported beside it.
        share: Share of the questions to fit on; the rest is held out for reporting. With all
            of them the report is about the questions that the policy was calibrated on.
        answer_from_memory: leak: where the context does not pass, answer from the model's own
            knowledge from this confidence on, above 0 and at most 1. Declared by you, not
            certified; by default never.
        per_route: selective: bound each route's risk as well.
        coverage: selective: instead of --risk, the share of cases to let through; the bound is
            then what can be certified for it.
        cost: leak=5,abstention=1,missing_share=0.5: no promise, but the threshold that costs
            least, where this share of your users' questions has no answer. With --promise
            selective: bound the mean cost, e.g.
            wrong_answer=1,false_abstention=0.2,wrong_follow=1.
        max_abstention: No promise, but the strictest threshold that abstains from at most this
            share of the questions that could be answered.
        cascade: leak: run=RUN, a run on the same questions with a costly scorer, e.g.
            judge:MODEL, which is then asked only in a certified band of the cheap one's
            values; strict=RUN, one with --scorer strict:NAME, to ask it also where the cheap
            one's match may tell nothing; cost=200, of one question of it, in questions of the
            cheap one; abstention-cost=20000, of abstaining from one that could be answered;
            on-failure=abstain or cheap, where it fails.
        mix: leak: of the runs of two to five scorers on the same questions make one scorer, by
            weights that are fitted on a third of the questions. It is taken where it is shown
            to be better than the best of them alone; the other questions are the test.
        report: selective: write this page (.html), with plots, and JSON beside it.
        max_false_abstention: Write no policy that abstains from a larger share of the
            questions that it could answer, among those that it was calibrated on (or that were
            held out).
        accept_generated: Also write a policy when rules or a model made more than a tenth of the
            questions; it is marked, and promises nothing about people's.
        write_anyway: Write the policy whatever speaks against it.
        dry_run: Measure nothing; say what so many questions can certify.
        questions: Question document (.json), JSON lines (.jsonl), or CSV.
        unanswerable: What questions that the documents do not answer can certify is printed
            too.
        leave_out: What is left out, as for `measure`: questions count as one piece of evidence
            where it is the same.
    """
    given = {**locals(), "run": run or []}
    within = {"risk": risk, "delta": delta, "coverage": coverage, "max_abstention": max_abstention}
    require_share(within)
    shares = {
        "share": share, "max_false_abstention": max_false_abstention,
        "answer_from_memory": answer_from_memory,
    }  # fmt: skip
    require_share(shares, may_be_one=True)
    if dry_run:
        from ._plan import plan

        plan(
            questions,
            unanswerable,
            risk=_DEFAULT_RISK if risk is None else risk,
            delta=_DEFAULT_DELTA if delta is None else delta,
            leave_out=leave_out,
        )
        return
    if like is None:
        _fit(_Asked(**given))
    else:
        _refit(like, _Asked(**given))


def _fit(asked: _Asked) -> None:
    from ..policies import calibrate_records

    measured = asked.measured()
    bound = asked.bound(leaves_out=measured[0].leaves_out)
    if asked.mix:
        from ..policies.mixing import mixed

        assert isinstance(bound, Leak)
        measured = [mixed(measured, bound.missing)]
    if len(measured) > 1 and not isinstance(bound, Leak):
        raise InputError(
            "one of several scorers is chosen for a leak",
            where="--run",
            hint="name one run, or promise a leak (--promise leak)",
        )
    delta = _DEFAULT_DELTA if asked.delta is None else asked.delta
    memory = asked.answer_from_memory
    found = calibrate_records(
        measured, bound, delta=delta, confidence_threshold=memory, **asked.fitting
    )
    source, mix = found.measured.source, measured[0].mix
    chosen = [f"chosen of {len(measured)} runs: {source}"] * (len(measured) > 1)
    _write_or_explain(found, asked, first=chosen if mix is None else _lines("mix", mix))
    if asked.run and found.reported_by_run:
        out.print(f"next: knowgate report {quote(source)}")


def _refit(like: Path, asked: _Asked) -> None:
    """Fit the promise of an old policy again, on newer data."""
    from ..policies.refit import recalibrate

    asked.require_fitting("like")
    old = Policy.load(like)
    if asked.policy_out.resolve() == like.resolve():
        hint = "keep it, and choose another --out"
        raise InputError("is the old policy", where=str(asked.policy_out), hint=hint)
    if len(asked.run) > 1:
        raise InputError("takes one --run", where="--like", hint="name the run of its scorer")
    [measured] = asked.measured(old_policy=like)
    found = recalibrate(old, measured, where=like, **asked.fitting)
    if isinstance(found.risk, Leak):
        hint = "leave it out, and run `knowgate report` on the run"
        asked.reject("report", why="does not go with this policy's promise", hint=hint)
    _write_or_explain(found, asked, last=_lines("changed", old, found.policy))


def rate_text(rate: Interval) -> str:
    """A share with its interval."""
    return _TEXTS.text("rate", rate)


def _lines(macro: str, *given: Any) -> list[str]:
    """What a macro writes; some lines belong below the one before."""
    lines = _TEXTS.paragraphs(macro, *given)
    return [f"  {line}" if line.startswith(_BELOW) else line for line in lines]


def _write_or_explain(
    found: Calibrated, asked: _Asked, *, first: Sequence[str] = (), last: Sequence[str] = ()
) -> None:
    """Write the policy and say what it does, or why it should not serve and what would work.

    Args:
        found: by a calibration.
        asked: the options. Where it is written whatever speaks against it, it promises what it
            can; else one with a problem is not written, and promises nothing.
        first: lines before what it does.
        last: lines after that.

    Raises:
        typer.Exit: with code 3, if the policy has a problem and is not to be written anyway.
    """
    from ..policies import write_calibrated

    found = found.accepting(*["generated"] * asked.accept_generated)
    policy_out, report = asked.policy_out, asked.report
    written = write_calibrated(found, policy_out, report, anyway=asked.write_anyway)
    print_figures(_figures(found, policy_out if written else None))
    chosen = isinstance(found.risk, Costs | MaxAbstention)
    shown = _lines("calibrated", found, not written, chosen)
    shown += _lines("reviews", found.reviews, found.measured.source)
    out.print("\n".join([*first, *shown, *last]))
    for line in _lines("problems", found, policy_out, written):
        err.print(line)
    if not written:
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
