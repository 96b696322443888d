"""A damaged run or model folder is one line, at once, and no code comes from it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.guard import FingerprintMismatchError, Guard, InputError
from knowgate.guard.errors import KnowgateError, ModelFolderError
from knowgate.guard.signals.conflict import CrossEncoderEntailment
from knowgate.guard.signals.relevance import load_scorer
from tools.attack import damaged_models
from tools.attack.model_folders import (
    CHANGED_ENCODERS,
    HOSTILE_CLASSIFIERS,
    HOSTILE_ENCODERS,
    Workshop,
    attacks,
    policy_of,
)
from tools.attack.run_files import RUNS, WHOLE_FILE, DamagedRuns, field_damages
from tools.attack.tiny_models import tiny_cross_encoder, tiny_encoder

KINDS = {kind.name: kind for kind in RUNS}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> DamagedRuns:
    return DamagedRuns(tmp_path_factory.mktemp("served"), full=False, only="served")


@pytest.fixture(scope="module")
def conflict(tmp_path_factory: pytest.TempPathFactory) -> DamagedRuns:
    return DamagedRuns(tmp_path_factory.mktemp("conflict"), full=False, only="conflict")


@pytest.mark.parametrize("damage", ["a line NaN", "a line {}", "zeros", "a folder"])
def test_a_run_is_not_continued_over_damaged_passages(served: DamagedRuns, damage: str) -> None:
    kind = KINDS["served"]
    assert not served.disorderly((kind, "passages.jsonl", kind.make, WHOLE_FILE[damage]))


def test_a_passage_without_its_id_is_an_error_of_the_run(served: DamagedRuns) -> None:
    kind = KINDS["served"]
    damages = field_damages(served.folder / "served" / "passages.jsonl")
    for name in ("passage_id gone", 'passage_id = [["x"]]', "text = null"):
        assert not served.disorderly((kind, "passages.jsonl", kind.make, damages[name])), name


@pytest.mark.parametrize("name", ["settings", "settings.kinds", "settings.answers"])
def test_settings_of_another_type_are_one_line(conflict: DamagedRuns, name: str) -> None:
    kind = KINDS["conflict"]
    damages = field_damages(conflict.folder / "conflict" / "manifest.json")
    for wrong in ('[["x"]]', "null", '"\\ud800"'):
        damage = damages[f"{name} = {wrong}"]
        assert not conflict.disorderly((kind, "manifest.json", kind.read[0], damage)), wrong


def test_a_key_that_utf8_cannot_hold_is_no_traceback(conflict: DamagedRuns) -> None:
    kind = KINDS["conflict"]
    damages = field_damages(conflict.folder / "conflict" / "instances.jsonl")
    damage = damages['key = "\\ud800"']
    assert not conflict.disorderly((kind, "instances.jsonl", kind.make, damage))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _loaded(tiny_encoder(tmp_path_factory.mktemp("encoder") / "whole"))


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _loaded(tiny_cross_encoder(tmp_path_factory.mktemp("cross") / "whole"))


def _loaded(folder: Path) -> Path:
    damaged_models.score(folder)  # libraries are loaded once, before processes are forked
    return folder


@pytest.mark.parametrize("name", sorted(damaged_models.WEIGHTS))
def test_weights_that_are_not_whole_are_named(encoder: Path, name: str) -> None:
    folder = damaged_models.damaged(encoder, damaged_models.WEIGHTS[name])
    with pytest.raises(ModelFolderError, match=r"model\.safetensors"):
        damaged_models.score(folder)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_damaged_sizes_tokenizers_and_layers_are_one_line(
    cross_encoder: Path, encoder: Path
) -> None:
    fields = damaged_models.CONFIGS | damaged_models.TOKENIZERS
    assert damaged_models.disorderly(damaged_models.score, cross_encoder, fields) == []
    assert damaged_models.disorderly(damaged_models.score, encoder, damaged_models.PARTS) == []


def test_weights_of_a_model_with_fewer_layers_are_not_filled_at_random(cross_encoder: Path) -> None:
    folder = damaged_models.damaged(
        cross_encoder, damaged_models.CONFIGS["num_hidden_layers = 1000000000"]
    )
    with pytest.raises(ModelFolderError, match="num_hidden_layers is 1000000000"):
        damaged_models.score(folder)
    two = damaged_models.damaged(cross_encoder, damaged_models.two_layers)
    with pytest.raises(ModelFolderError, match="the weights lack 16 tensors"):
        damaged_models.score(two)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("models"))


def _unchanged(_: Path) -> None:
    return None


@pytest.mark.parametrize("name", sorted(HOSTILE_ENCODERS))
def test_a_scorer_folder_that_names_code_is_rejected_and_nothing_runs(
    shop: Workshop, name: str
) -> None:
    folder = shop.copy(shop.encoder, HOSTILE_ENCODERS[name])
    assert not shop.runs(lambda path: load_scorer(str(path)), folder)


@pytest.mark.parametrize("name", sorted(HOSTILE_CLASSIFIERS))
def test_other_models_that_name_code_are_rejected_and_nothing_runs(
    shop: Workshop, name: str
) -> None:
    folder = shop.copy(shop.classifier, HOSTILE_CLASSIFIERS[name])
    assert not shop.runs(CrossEncoderEntailment, folder)
    assert not shop.runs(HuggingFaceLM, folder)


def test_a_python_file_in_a_plain_folder_is_never_imported(shop: Workshop) -> None:
    folder = shop.copy(shop.encoder, _unchanged)
    load_scorer(str(folder))
    assert not (folder / "executed").exists()


@pytest.mark.parametrize("name", sorted(CHANGED_ENCODERS))
def test_a_folder_changed_after_calibration_is_rejected_in_one_line(
    shop: Workshop, name: str
) -> None:
    policy = policy_of(shop.encoder)
    changed = load_scorer(str(shop.copy(shop.encoder, CHANGED_ENCODERS[name])))
    with pytest.raises(FingerprintMismatchError, match="knowgate calibrate") as error:
        Guard(policy, scorer=changed, metrics=False)
    assert "\n" not in str(error.value)


def test_an_unchanged_copy_of_a_folder_is_the_calibrated_scorer(shop: Workshop) -> None:
    copy = load_scorer(str(shop.copy(shop.encoder, _unchanged)))
    Guard(policy_of(shop.encoder), scorer=copy, metrics=False)


def test_an_entailment_model_is_told_by_its_configuration_and_length(shop: Workshop) -> None:
    model = CrossEncoderEntailment(shop.classifier)
    shorter = CrossEncoderEntailment(shop.classifier, max_length=8)
    changed = shop.copy(shop.classifier, CHANGED_ENCODERS["layer norm"])
    others = {shorter.fingerprint, CrossEncoderEntailment(changed).fingerprint}
    assert len({model.fingerprint, *others}) == 3


def test_a_policy_cannot_name_a_folder_as_its_scorer(shop: Workshop, tmp_path: Path) -> None:
    policy = policy_of(shop.encoder)
    path = tmp_path / "policy.json"
    kind = str(shop.encoder)
    named = policy.scorer.model_copy(update={"kind": kind})
    policy.model_copy(update={"scorer": named}).save(path)
    with pytest.raises(InputError, match=r"scorer=load_scorer\(FOLDER\)") as error:
        Guard.load(path, metrics=False)
    assert "\n" not in str(error.value)
    with pytest.raises(KnowgateError):
        load_scorer(named)
    Guard.load(policy, scorer=load_scorer(kind), metrics=False)


@pytest.mark.slow
def test_no_attack_gets_through(tmp_path: Path) -> None:
    assert [one for one in attacks(tmp_path, full=False) if not one.held] == []
