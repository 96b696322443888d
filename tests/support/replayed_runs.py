"""Runs made of logged replies, as they stand, without a guard."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from knowgate.guard import MissingDependencyError
from knowgate.offline_eval.data.embedding import Encoder
from knowgate.offline_eval.data.questions import PassageKind
from knowgate.offline_eval.suites import run_suite
from knowgate.offline_eval.suites.ookb import OokbSuite


def replayed_run(
    logs: Sequence[str | os.PathLike[str]],
    questions: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    passage: PassageKind = PassageKind.QUESTION_ANSWER,
    on_warning: Callable[[Any], object] | None = None,
) -> Path:
    """The folder of a run that holds the logged replies."""
    settings = OokbSuite.settings(
        questions=tuple(map(Path, questions)),
        replay=tuple(map(Path, logs)),
        passage=passage,
        judges=(),
    )
    suite = OokbSuite(encoder=_no_encoder)
    for warning in suite.cases(settings).replay.warnings:
        if on_warning is not None:
            on_warning(warning)
    return run_suite(suite, settings, out).folder


def _no_encoder() -> Encoder:
    raise MissingDependencyError("logged replies are not searched")
