"""Calibrate a policy for a chain as it is served, in one call."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ...calibration.risk import Costs, Leak, MaxAbstention
from ..run import OnProgress
from ..suites import RunOptions, run_suite
from ..suites.ookb import MEASURE, Instruments
from ..systems import ServedChain
from ._calibrated import Calibrated
from ._fit import calibrate_records
from ._records import records_from_ookb
from ._writing import write_calibrated


def calibrate_chain(
    chain: Any,
    questions: str | os.PathLike[str],
    *,
    risk: float | Leak | Costs | MaxAbstention = 0.1,
    delta: float = 0.1,
    out: str | os.PathLike[str] | None = None,
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
    found = MEASURE.settings(
        questions=Path(questions),
        chain=served.name,
        **(settings or {}),
    )
    with tempfile.TemporaryDirectory() as spare:
        folder = run_suite(
            MEASURE,
            found,
            Path(spare) / "run" if out is None else out,
            systems=(Instruments.served(found, served),),
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
