"""Measured cases of a run of the UniKnow suite."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...guard import Fingerprint, InputError
from ..runs import read_manifest
from ..uniknow import UniKnowSignal, uniknow_signals
from ._measured import MeasuredCase, MeasuredCases

_RUN_AGAIN = "run `knowgate eval uniknow` again into another folder"


def records_from_uniknow(run: str | os.PathLike[str]) -> MeasuredCases:
    """One case per question and context, with what the run's guard measured of it.

    A context counts as right where the model's plain reply to it is the expected one. The
    run's training and evaluation questions are both taken: calibration makes parts of its own.

    Raises:
        InputError: no such run, no guard took part, or it is not whole.
    """
    signals = uniknow_signals(run)
    settings = read_manifest(run).get("settings")
    where = str(Path(run) / "manifest.json")
    found: dict[str, Any] = settings if isinstance(settings, dict) else {}
    dataset = found.get("dataset", "")
    kinds = ", ".join(dict.fromkeys(signal.kind.replace("_", " ") for signal in signals))
    return MeasuredCases(
        cases=tuple(_case(signal) for signal in signals),
        source=os.fspath(run),
        scorer=_fingerprint(found.get("scorer"), "scorer", where),
        estimator=_fingerprint(found.get("estimator"), "estimator", where),
        aggregator=str(found.get("aggregator") or "max"),
        population=f"questions of the data set {dataset}, each with a context of every kind that "
        f"was made ({kinds}), all kinds counting the same",
    )


def _case(signal: UniKnowSignal) -> MeasuredCase:
    return MeasuredCase(
        question_id=f"{signal.dataset}/{signal.question_id}",
        relevance=signal.raw_relevance,
        confidence=signal.raw_confidence,
        context_right=signal.context_right,
        closed_book_right=signal.closed_book_right,
        group=f"{signal.dataset}/{signal.group}" if signal.group else "",
        case=signal.kind,
    )


def _fingerprint(value: Any, name: str, where: str) -> Fingerprint:
    try:
        return Fingerprint.model_validate(value)
    except ValidationError:
        raise InputError(
            f"field 'settings.{name}' is no fingerprint", where=where, mend=_RUN_AGAIN
        ) from None
