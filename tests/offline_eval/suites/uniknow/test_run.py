"""Runs of the suite on the embedded model, resumed after kills."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.guard import Policy
from knowgate.offline_eval.report.what_if import WhatIf, share
from knowgate.offline_eval.run.calls import RunOptions
from knowgate.offline_eval.suites.uniknow import _suite
from knowgate.offline_eval.suites.uniknow._cases import Reply
from knowgate.offline_eval.suites.uniknow._report import uniknow_what_if
from knowgate.offline_eval.suites.uniknow.plan import uniknow_signals
from knowgate.offline_eval.testbed.check import microworld_model_path
from tests.offline_eval.suites.uniknow.small_run import small_run, stored_run

pytestmark = pytest.mark.slow

_Prepare = Callable[[Path], None]
# Cases of a batch of a local model.
CASES_AT_ONCE = 64


@pytest.fixture(scope="module")
def lm() -> HuggingFaceLM:
    return HuggingFaceLM(microworld_model_path(), max_new_tokens=16, device="cpu")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, lm: HuggingFaceLM) -> Path:
    return small_run(tmp_path_factory.mktemp("uniknow") / "run", lm)


def _rows(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "rows.jsonl").read_text("utf-8").splitlines()]


# -- the embedded model ------------------------------------------------------------------


def test_training_and_evaluation_share_no_subject(finished: Path) -> None:
    signals = uniknow_signals(finished)
    groups = {part: {s.group for s in signals if s.part == part} for part in ("training",)}

    assert groups["training"]
    assert groups["training"].isdisjoint(case.group for case in stored_run(finished).cases.values())


def test_the_signals_say_what_naive_and_memory_were_worth(finished: Path) -> None:
    naive = {row["case_id"]: row for row in _rows(finished) if row["method"] == "naive"}
    signals = [signal for signal in uniknow_signals(finished) if signal.part == "evaluation"]

    assert len(signals) == len(naive)
    for signal in signals:
        assert signal.raw_relevance is not None
        assert signal.raw_confidence is not None
        assert signal.context_right == naive[f"naive|{signal.case_id}"]["right"]


def test_another_threshold_is_computed_from_the_stored_signals_and_replies(finished: Path) -> None:
    run = stored_run(finished)
    rows = [row for row in run.rows if row.method == "guard_naive"]
    naive = [row for row in run.rows if row.method == "naive"]

    block = uniknow_what_if(run)

    assert isinstance(block, WhatIf)
    assert set(block.moving) == {"relevance", "confidence"}
    own, lax = block.at(*block.start), block.at(0.0, None)
    assert own["coverage"][0] == sum(row.route != "abstain" for row in rows)
    assert own["wrong"][0] == sum(not row.right and not row.abstained for row in rows)
    assert lax["wrong"][0] == sum(not row.right and not row.abstained for row in naive)
    assert share(block.at(None, 0.0)["coverage"]) == 1.0
    moved = [row.model_copy(update={"route": "follow_context"}) for row in rows]
    run.rows = [*naive, *moved]
    assert "do not follow from the stored signals" in str(uniknow_what_if(run))


def test_the_guard_replies_what_its_route_says(finished: Path) -> None:
    rows = _rows(finished)
    by_case = {row["case_id"]: row for row in rows}
    memory = {signal.case_id: signal.closed_book for signal in uniknow_signals(finished)}
    guarded = [row for row in rows if row["method"].startswith("guard_")]
    policy = Policy.load(finished / "policy.json")

    assert policy.guarantee is not None
    for row in guarded:
        base, case_id = row["method"].removeprefix("guard_"), row["case_id"].partition("|")[2]
        wanted = {
            "follow_context": by_case[f"{base}|{case_id}"]["answer"],
            "answer": memory[case_id],
            "abstain": "",
        }
        assert row["answer"] == wanted[row["route"]]
        assert policy.route(row["relevance"], row["confidence"]).value == row["route"]


def _keep_bytes(name: str, share: float) -> _Prepare:
    def cut(run: Path) -> None:
        path = run / name
        os.truncate(path, int(path.stat().st_size * share))

    return cut


def _remove(*names: str) -> _Prepare:
    def remove(run: Path) -> None:
        for name in names:
            path = run / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return remove


@pytest.mark.parametrize(
    "killed",
    [
        [_keep_bytes("rows.jsonl", 0.5), _remove("adapters", "policy.json")],
        [
            _keep_bytes("knowledge.jsonl", 0.6),
            _remove("rows.jsonl", "signals.jsonl", "plan.json", "cases.jsonl", "policy.json"),
        ],
    ],
    ids=["before-training", "knowledge"],
)
def test_a_killed_run_goes_on_and_its_rows_come_out_the_same(
    finished: Path, tmp_path: Path, lm: HuggingFaceLM, killed: list[_Prepare]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    for prepare in killed:
        prepare(run)

    small_run(run, lm)

    for name in ("rows.jsonl", "signals.jsonl", "cases.jsonl", "plan.json", "policy.json"):
        assert (run / name).read_bytes() == (finished / name).read_bytes(), name


class _Noted(HuggingFaceLM):
    """Notes how many prompts come in a call, and at which temperatures it samples."""

    def __init__(self) -> None:
        super().__init__(microworld_model_path(), max_new_tokens=16, device="cpu")
        self.contrastive: list[int] = []
        self.temperatures: set[float] = set()

    def generate(self, *args: Any, **named: Any) -> Any:
        self.temperatures.add(named.get("temperature", 0.0))
        return super().generate(*args, **named)

    def generate_contrastive(self, with_context: Any, *args: Any, **named: Any) -> Any:
        self.contrastive.append(len(with_context))
        return super().generate_contrastive(with_context, *args, **named)


def test_a_batch_that_a_kill_cut_is_asked_again_whole_and_no_other(
    finished: Path, tmp_path: Path
) -> None:
    # What stands beside a prompt in its batch can change the last digit of a score.
    run, lm = tmp_path / "run", _Noted()
    shutil.copytree(finished, run)
    cases = len(stored_run(run).cases)
    lines = (run / "rows.jsonl").read_bytes().splitlines(keepends=True)
    (run / "rows.jsonl").write_bytes(b"".join(lines[: cases + CASES_AT_ONCE + 5]))

    small_run(run, lm)

    assert lm.contrastive[0] == min(CASES_AT_ONCE, cases - CASES_AT_ONCE)
    assert sum(lm.contrastive) == cases - CASES_AT_ONCE
    assert (run / "rows.jsonl").read_bytes() == (finished / "rows.jsonl").read_bytes()


def test_a_trained_method_is_asked_again_for_what_failed(
    tmp_path: Path, lm: HuggingFaceLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        down = Reply("", abstained=False, error="LanguageModelError: down")
        patch.setattr(_suite, "prompted", lambda _lm, _template, cases: [down] * len(cases))
        run = small_run(tmp_path / "run", lm, methods=("retrobust",))

    small_run(run, lm, RunOptions(retry_failed=True), methods=("retrobust",))

    assert all(row["error"] is None for row in _rows(run))


def test_two_runs_share_what_is_known_of_the_model(finished: Path, tmp_path: Path) -> None:
    lm = _Noted()

    run = small_run(
        tmp_path / "run", lm, knowledge=finished / "knowledge.jsonl", methods=("naive",)
    )

    assert lm.temperatures == {0.0}
    assert not (run / "knowledge.jsonl").exists()
    assert stored_run(run).plan.knowledge == stored_run(finished).plan.knowledge
