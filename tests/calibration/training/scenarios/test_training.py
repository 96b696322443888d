"""Adapters: that they learn, what is written, what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.calibration.training import scenarios as training_module
from knowgate.calibration.training.scenarios import (
    ScenarioTrainingReport,
    ScenarioTrainingSettings,
    TrainingExample,
    examples_sha256,
    train_scenarios,
)
from knowgate.guard import InputError, KnowgateError
from knowgate.guard.files import file_sha256

FAST = ScenarioTrainingSettings(
    rank=8, alpha=16, learning_rate=1e-2, batch_size=4, epochs=12, device="cpu"
)
REPLIES = ["red", "blue", "unknown", "green"]
EXAMPLES = [TrainingExample(f"Colour of item {n}?\nA:", REPLIES[n]) for n in range(4)]
PAIRS = [TrainingExample(f"Item {n}?\nA:", "unknown", REPLIES[n]) for n in (0, 1, 3)]


@pytest.fixture(scope="module")
def trained(base: Path, tmp_path_factory: pytest.TempPathFactory) -> ScenarioTrainingReport:
    """An adapter that has learned `EXAMPLES`; read only."""
    return train_scenarios(
        base, EXAMPLES, tmp_path_factory.mktemp("new") / "adapter", settings=FAST
    )


def test_the_loss_goes_down_and_the_replies_are_learned(
    base: Path, trained: ScenarioTrainingReport
) -> None:
    lm = HuggingFaceLM(base, adapter=trained.folder, max_new_tokens=12)

    replies = [row[0].text for row in lm.generate([one.prompt for one in EXAMPLES])]

    assert trained.losses[-1] < 0.1 * trained.losses[0]
    # The end token was learned with them: nothing follows.
    assert replies == [f" {one.target}" for one in EXAMPLES]


def test_the_folder_holds_the_adapter_and_says_what_it_was_made_of(
    base: Path, trained: ScenarioTrainingReport
) -> None:
    folder = trained.folder
    told = json.loads((folder / "training.json").read_text(encoding="utf-8"))

    assert sorted(path.name for path in folder.iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
        "training.json",
    ]
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    assert told["identity"]["base_sha256"] == file_sha256(base / "model.safetensors")
    assert told["identity"]["examples_sha256"] == examples_sha256(EXAMPLES)
    assert told["identity"]["settings"]["rank"] == 8
    assert told["adapter_sha256"] == file_sha256(folder / "adapter_model.safetensors")
    assert told["losses"] == list(trained.losses)
    assert (trained.steps, trained.examples, trained.left_out) == (12, 4, 0)
    assert str(base) not in (folder / "adapter_config.json").read_text(encoding="utf-8")


def test_the_same_seed_gives_the_same_adapter_and_another_seed_another(
    base: Path, tmp_path: Path
) -> None:
    few = replace(FAST, epochs=2)
    adapters = [
        train_scenarios(base, EXAMPLES, tmp_path / str(n), settings=few, seed=seed)
        for n, seed in enumerate([3, 3, 4])
    ]

    assert adapters[0].adapter_sha256 == adapters[1].adapter_sha256
    assert adapters[0].losses == adapters[1].losses
    assert adapters[2].adapter_sha256 != adapters[0].adapter_sha256


def test_a_loss_that_is_no_number_ends_the_training_with_nothing_written(
    base: Path, tmp_path: Path
) -> None:
    with pytest.raises(KnowgateError, match="lower learning rate"):
        train_scenarios(
            base, EXAMPLES, tmp_path / "out", settings=replace(FAST, learning_rate=1e30)
        )

    assert list(tmp_path.iterdir()) == []


def test_a_training_that_is_interrupted_writes_nothing(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_model: Any, folder: Path) -> str:
        (folder / "adapter_model.safetensors").write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(training_module, "write_adapter", interrupt)

    with pytest.raises(KeyboardInterrupt):
        train_scenarios(base, EXAMPLES, tmp_path / "out", settings=replace(FAST, epochs=1))

    assert list(tmp_path.iterdir()) == []


def test_examples_that_are_too_long_are_left_out_and_counted(base: Path, tmp_path: Path) -> None:
    long = TrainingExample("word " * 200, "red")
    few = replace(FAST, epochs=1)

    report = train_scenarios(base, [*EXAMPLES, long], tmp_path / "out", settings=few)

    assert (report.examples, report.left_out) == (4, 1)
    with pytest.raises(InputError, match="longer than 10 tokens"):
        train_scenarios(base, EXAMPLES, tmp_path / "none", settings=replace(few, max_tokens=10))


def test_preferences_lift_the_chosen_reply_over_the_rejected_one(
    base: Path, tmp_path: Path
) -> None:
    report = train_scenarios(base, PAIRS, tmp_path / "out", settings=FAST)

    def margin(lm: HuggingFaceLM) -> float:
        total = 0.0
        for pair in PAIRS:
            [[chosen, rejected]] = lm.score_options(
                [pair.prompt], [f" {pair.target}", f" {pair.rejected}"]
            )
            total += chosen - rejected
        return total

    assert report.objective == "preference"
    # Before the first step policy and base agree.
    assert report.losses[0] == pytest.approx(math.log(2), rel=1e-4)
    assert report.losses[-1] < 0.3
    assert margin(HuggingFaceLM(base, adapter=report.folder)) > margin(HuggingFaceLM(base)) + 10


def test_a_misspelt_setting_is_refused() -> None:
    with pytest.raises(InputError, match="rnak"):
        ScenarioTrainingSettings(rnak=4)  # type: ignore[call-arg]
