"""No code comes from model folders, and a folder that was changed is not the calibrated one."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.guard import FingerprintMismatchError, Guard, InputError
from knowgate.guard.errors import KnowgateError
from knowgate.guard.signals.conflict import CrossEncoderEntailment
from knowgate.guard.signals.relevance import load_scorer
from tools.attack.model_folders import (
    CHANGED_ENCODERS,
    HOSTILE_CLASSIFIERS,
    HOSTILE_ENCODERS,
    Workshop,
    attacks,
    policy_of,
)


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
