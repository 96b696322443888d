"""Measuring on Ray: what a worker is given; `tests/offline_eval/run` has runs on a cluster."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from knowgate.adapters.ray.pool import PoolSize
from knowgate.guard import Fingerprint, InputError
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.offline_eval.run.calls import RayPool, RunOptions
from knowgate.offline_eval.suites import ModelChoice, run_suite
from knowgate.offline_eval.suites.ookb import MEASURE, instruments
from knowgate.offline_eval.suites.ookb._settings import MeasureSettings
from knowgate.offline_eval.suites.ookb.instruments import Instruments
from tests.offline_eval.suites.ookb.toy import ToyEncoder, write_toy_questions


def test_a_chain_is_measured_in_this_process(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("The library opens at nine.")
    settings = MeasureSettings(
        questions=write_toy_questions(tmp_path / "q.jsonl", 2), documents=tmp_path, scorer="lexical"
    )
    options = RunOptions(pool=RayPool(PoolSize()))

    with pytest.raises(InputError, match="measured in this process"):
        run_suite(MEASURE, settings, tmp_path / "run", ModelChoice(), options)


def test_a_worker_loads_the_scorer_that_was_named_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No model is loaded for the retriever.
    monkeypatch.setattr(instruments, "BiEncoderScorer", ToyEncoder)
    settings = MeasureSettings(
        questions=write_toy_questions(tmp_path / "q.jsonl", 2), scorer="lexical"
    )
    cases = MEASURE.cases(settings)
    found = MEASURE.load(settings, ModelChoice())
    work: Any = SimpleNamespace(settings=settings, cases=cases, systems=found)

    worker = pickle.loads(pickle.dumps(MEASURE.remote(work)))()

    here = Instruments(LexicalScorer(), ToyEncoder())
    here.settings = settings
    ((case_id, _), case) = MEASURE.sent(cases[0], found[0]), cases[0]
    assert worker.answer([case_id], None) == MEASURE.answer([case], here)
    make: Any = MEASURE.remote(work)
    with pytest.raises(InputError, match="the worker's scorer is not the one"):
        make.func(*make.args[:-1], Fingerprint(kind="other"))
