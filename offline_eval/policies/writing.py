"""Write a calibrated policy with what belongs to it: all files or none."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from ...calibration import CalibrationRecord
from ...calibration.risk import Costs, Leak, MaxAbstention
from ...calibration.risk.risks import Risk
from ...guard.errors import InputError
from ...guard.files import AnyPath, atomic_writer, write_json
from ...guard.policy import Policy
from ..report.writing import ReportWriter
from ..run.calls import OnProgress, RunOptions
from ..run.manifest import Manifest
from ..run.measured_run import MeasuredRun
from ..suites import run_suite
from ..suites.ookb import MEASURE
from ..suites.ookb.instruments import Instruments
from ..systems.served import ServedChain
from ._attempts import HISTORY
from ._calibrated import Calibrated
from ._fit import calibrate_records
from ._report import calibration_document
from .records import CalibrationSet, records_from_ookb

_REFUSAL = "refusal.json"
_RUN_FILES = (
    "manifest.json", "questions.jsonl", "rows.jsonl", "cases.jsonl", "knowledge.jsonl",
    "calibration.json", _REFUSAL, "signals.jsonl", "plan.json", "reviews.jsonl", HISTORY,
)  # fmt: skip


def calibrate_run(
    run: AnyPath,
    policy_out: AnyPath,
    risk: Risk,
    *,
    delta: float = 0.1,
    share: float = 1.0,
    confidence_threshold: float | None = None,
    accept_generated: bool = False,
    write_anyway: bool = False,
) -> Calibrated:
    """Fit a policy to a finished run, count it, and write it unless it has a problem.

    Args:
        run: folder; see `write_calibrated`.
        policy_out: where `policy.json` goes.
        risk: as for `calibrate_records`, like all further arguments.
        delta: likewise.
        share: likewise.
        confidence_threshold: likewise.
        accept_generated: see `Calibrated.accepting`.
        write_anyway: write a policy that should not serve too.

    Returns:
        The policy with its evidence; `problems` says why nothing was written, `advice` what
        would work.

    Raises:
        InputError: the run cannot be used, or `policy_out` is one of its files.
    """
    require_apart(Path(policy_out), runs=[Path(run)])
    found = calibrate_records(
        CalibrationSet.of_run(run),
        risk,
        delta=delta,
        share=share,
        counted=True,
        confidence_threshold=confidence_threshold,
    ).accepting(*["generated"] * accept_generated)
    write_calibrated(found, policy_out, anyway=write_anyway)
    return found


def write_calibrated(
    found: Calibrated, policy_out: AnyPath, report: AnyPath | None = None, *, anyway: bool = True
) -> bool:
    """Write a calibrated policy, its report where one is asked for, and a note in its run.

    Args:
        found: the policy with its evidence.
        policy_out: where `policy.json` goes.
        report: a page.
        anyway: False writes no policy that has problems: the report of its run then says which,
            and what would work.

    Returns:
        Whether the policy was written.

    Raises:
        InputError: a file cannot be written; then none is.
    """
    if found.problems and not anyway:
        if found.reported_by_run:
            problems = [problem.what for problem in found.problems]
            refusal = {"problems": problems, "advice": list(found.advice)}
            version = {"schema_version": Manifest.SCHEMA_VERSION}
            write_json(Path(found.measured.source) / _REFUSAL, version | refusal)
        return False
    with atomic_writer(policy_out) as stream:
        stream.write(found.policy.to_json())
        # A full disk shows before the other files are there.
        stream.flush()
        if report is not None:
            page = Path(report)
            writer = ReportWriter(page.parent, ("json", "html"), page=page.name)
            writer.write(calibration_document(found))
        if found.reported_by_run:
            certify, test = map(_questions, (found.certify, found.test))
            folds = [(fold.threshold, _questions(fold.records)) for fold in found.folds]
            told = [{"threshold": one, "questions": names} for one, names in folds]
            run = Path(found.measured.source)
            _note(run, found.policy, certify, test, folds=told, seed=found.seed)
    return True


def judge_by(run: AnyPath, policy: Policy) -> None:
    """Have the report of a run judge all its questions by a policy as it stands.

    Raises:
        InputError: the run cannot be used, or was measured by another scorer or aggregator than
            the policy's.
    """
    root = Path(run)
    measured = MeasuredRun.read(root, with_calibration=False)
    hint = f"measure with --aggregator {policy.aggregator}"
    measured.manifest.require_of(policy, where=str(root), hint=hint)
    _note(root, policy, [], list(measured.questions), given_policy=True)


def _note(run: Path, policy: Policy, certify: list[str], test: list[str], **more: Any) -> None:
    """Write `calibration.json` in a run folder, in the place of a refusal."""
    guarantee = policy.guarantee
    note = {
        "schema_version": Manifest.SCHEMA_VERSION,
        "policy": json.loads(policy.to_json()),
        "risk": None if guarantee is None else guarantee.risk,
        "delta": None if guarantee is None else guarantee.delta,
        "calibration_questions": certify,
        "test_questions": test,
        **more,
    }
    write_json(run / "calibration.json", note)
    (run / _REFUSAL).unlink(missing_ok=True)


def _questions(records: Iterable[CalibrationRecord]) -> list[str]:
    return list(dict.fromkeys(record.question_id for record in records))


def require_apart(
    policy_out: Path,
    *,
    runs: Iterable[Path] = (),
    report: Path | None = None,
    inputs: Iterable[Path | None] = (),
) -> None:
    """Reject outputs that would overwrite an input, or each other.

    Args:
        policy_out: where the policy goes.
        runs: folders that are read.
        report: a page that is written, with JSON beside it.
        inputs: further files that are read.

    Raises:
        InputError: an output is an input, or the report is not named like a page.
    """
    written = [policy_out.resolve()]
    if report is not None:
        if report.suffix.lower() not in (".html", ".htm"):
            hint = "name a file that ends in .html"
            raise InputError("is not named like a page", where=str(report), hint=hint)
        written += [report.resolve(), report.with_suffix(".json").resolve()]
    if len(set(written)) < len(written):
        what = "policy and the JSON beside the report would be one file"
        hint = "give the report another name"
        raise InputError(what, where=str(policy_out), hint=hint)
    read = {one.resolve() for one in inputs if one is not None}
    for run in runs:
        read |= {run.resolve() / name for name in _RUN_FILES}
        if (run / "plan.json").is_file():
            read.add(run.resolve() / "policy.json")  # of a UniKnow run, whose guard it is
    for path in written:
        if path in read:
            hint = "choose another one"
            raise InputError("is a file that is read here", where=str(path), hint=hint)


def calibrate_chain(
    chain: Any,
    questions: AnyPath,
    *,
    risk: float | Leak | Costs | MaxAbstention = 0.1,
    delta: float = 0.1,
    out: AnyPath | None = None,
    settings: dict[str, Any] | None = None,
    accept: Collection[str] = (),
    on_progress: OnProgress | None = None,
) -> Calibrated:
    """Measure every question through a chain, with and without its source, and fit a policy.

    The same as `knowgate measure --chain` and `knowgate calibrate` with the promise of a leak: a
    policy that should not serve is not written either.

    Args:
        chain: a `GuardedRAG`, a retriever of LangChain, or any runnable or function from a
            question to documents; see `ServedChain`.
        questions: file of questions with what is known of their answers: `source` as in the
            metadata of the documents, `passage`, or `answer`.
        risk: bound α on the share of unanswerable questions that pass, in (0, 1); a `Leak` says
            too which questions these are, by default your own unanswerable ones, if there are any.
            `Costs` and `MaxAbstention` promise nothing.
        delta: probability δ that the bound fails, in (0, 1).
        out: run folder, resumed if it exists; `policy.json` goes there unless the policy has
            `problems`. None for a temporary one, which keeps nothing.
        settings: further settings of the suite `measure`, e.g. `scorer`, `source_key`, or
            `unanswerable`: a file of questions that users ask and the documents do not answer.
        accept: kinds of problems that the policy is written in spite of, e.g. `generated`.
        on_progress: called after every measured case.

    Returns:
        The policy with its evidence. `problems` says why it was not written, and `advice` what
        would work; `write_calibrated` writes it anyway.

    Raises:
        InputError: chain, questions or folder cannot be used, or there are too few questions.
    """
    served = chain if isinstance(chain, ServedChain) else ServedChain(chain)
    found = MEASURE.settings(questions=Path(questions), chain=served.name, **(settings or {}))
    with tempfile.TemporaryDirectory() as spare:
        folder = run_suite(
            MEASURE,
            found,
            Path(spare) / "run" if out is None else out,
            systems=(Instruments.of(found, served),),
            options=RunOptions(on_progress=on_progress),
        ).folder
        calibrated = calibrate_records(
            records_from_ookb(folder),
            risk if isinstance(risk, Leak | Costs | MaxAbstention) else Leak(risk),
            delta=delta,
            counted=True,
        )
        calibrated = calibrated.accepting(*accept)
        if out is not None:
            write_calibrated(calibrated, folder / "policy.json", anyway=False)
    return calibrated
