"""The trained scorer with a cross-encoder: what it reads, computes and is bound to."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowgate.guard import Guard, Policy
from knowgate.guard.contracts import SetRelevanceScorer, SetScore
from knowgate.guard.engine import CrossEncoderScorer
from knowgate.guard.engine.embedded import ENCODER_WEIGHTS
from knowgate.guard.errors import ModelFolderError
from knowgate.guard.model_files import CROSS_ENCODER_SHA256, require_files, reranker_folder
from knowgate.guard.signals.relevance import CascadeScorer, index_passages, load_scorer
from knowgate.guard.signals.relevance.sufficiency import (
    BUNDLED_FOLDER,
    CROSS_FOLDER,
    MIX_FILE,
    CrossSufficiencyScorer,
    SufficiencyScorer,
    best_texts,
)
from tests.support.paths import ROOT
from tools.sufficiency.ms_marco import CONFIGURATION, ms_marco_weights

# The folders of what is installed: all bundled weights are to be small together.
TOP = ("adapters", "calibration", "guard", "offline_eval")
QUESTION = "What does a day ticket for the ferry cost?"
ANSWER = "A day ticket for the ferry is 12 euros, 6 for children."
OTHERS = [
    "The ferry runs every hour from seven to nine.",
    "Day tickets for the museum are sold at the desk.",
    "Bicycles may be taken on the ferry.",
]
ODD = ["", " \n", "\x00\x01" * 300, "\ud800", "x" * 5_000, "word " * 600, "图书馆九点开门。"]


pytestmark = pytest.mark.usefixtures("ms_marco")


@cache
def _scorer() -> CrossSufficiencyScorer:
    found = load_scorer("sufficiency_cross")
    assert isinstance(found, CrossSufficiencyScorer)
    return found


@cache
def _reader() -> CrossEncoderScorer:
    return CrossEncoderScorer(reranker_folder(), adapter=CROSS_FOLDER)


# Loaded once, by the first test that knows where the reranker lies.
@pytest.fixture
def scorer(ms_marco: None) -> CrossSufficiencyScorer:
    return _scorer()


@pytest.fixture
def reader(ms_marco: None) -> CrossEncoderScorer:
    return _reader()


@pytest.fixture(scope="module")
def embedded() -> SufficiencyScorer:
    return SufficiencyScorer()


@pytest.mark.slow
def test_the_cross_encoder_gives_the_numbers_of_transformers_and_peft(
    reader: CrossEncoderScorer,
) -> None:
    import peft
    import safetensors.torch
    import torch
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    model: Any = BertForSequenceClassification(BertConfig(**CONFIGURATION, num_labels=1))
    head = safetensors.torch.load_file(CROSS_FOLDER / "head.safetensors")
    weights = {name: torch.from_numpy(one) for name, one in ms_marco_weights().items()}
    for name, value in head.items():
        weights[("bert." if name.startswith("pooler") else "") + name] = value.float()
    model.load_state_dict(weights)
    model.bert = peft.PeftModel.from_pretrained(model.bert, str(CROSS_FOLDER))
    pairs = [(QUESTION, text) for text in (ANSWER, *OTHERS)] + [(ANSWER, QUESTION)]
    library: Any = Tokenizer.from_file(str(reranker_folder() / "tokenizer.json"))
    tokens = PreTrainedTokenizerFast(tokenizer_object=library, pad_token="[PAD]")(
        [one for one, _ in pairs],
        [one for _, one in pairs],
        padding=True,
        return_token_type_ids=True,
        return_tensors="pt",
    )
    with torch.inference_mode():
        expected = model.eval()(**tokens).logits[:, 0].numpy()
    assert np.abs(reader.score_pairs(pairs) - expected).max() < 1e-3


def test_a_long_passage_is_read_in_parts_and_the_best_counts(reader: CrossEncoderScorer) -> None:
    neutral = "The council meets in the town hall on the first Monday of every month. " * 30
    behind, without = reader.score(QUESTION, [neutral + ANSWER, neutral])
    assert behind > without + 1


def test_the_joint_value_is_the_mix_of_both_models(
    scorer: CrossSufficiencyScorer, embedded: SufficiencyScorer, reader: CrossEncoderScorer
) -> None:
    passages = [ANSWER, *OTHERS]
    found, own = (one.score_set(QUESTION, passages) for one in (scorer, embedded))
    assert found.scores == pytest.approx(own.scores, abs=1e-5)
    best = sorted(passages, key=lambda one: -own.scores[passages.index(one)])[:3]
    read = reader.score(QUESTION, best)
    mix = json.loads((CROSS_FOLDER / MIX_FILE).read_text())
    by_hand = mix["bias"] + mix["embedded"] * own.joint + mix["best"] * read.max()
    by_hand += mix["margin"] * (read.max() - np.sort(read)[:-1].mean())
    assert found.joint == pytest.approx(by_hand, abs=1e-5)


def test_an_answer_is_told_from_its_neighbours(scorer: CrossSufficiencyScorer) -> None:
    assert isinstance(scorer, SetRelevanceScorer)
    with_it, without = scorer.score_sets([QUESTION] * 2, [[*OTHERS[:2], ANSWER], OTHERS])
    assert with_it.joint > without.joint
    assert with_it.scores[2] == max(with_it.scores)


@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([ANSWER, *OTHERS, *ODD]), min_size=1, max_size=5), st.randoms())
def test_order_repeats_and_neighbours_change_nothing(
    scorer: CrossSufficiencyScorer, passages: list[str], rng: Any
) -> None:
    shuffled = rng.sample(passages, len(passages))
    given_sets: list[Sequence[str]] = [passages, shuffled, [*passages, passages[0]], OTHERS]
    found = scorer.score_sets([QUESTION] * 4, given_sets)
    assert all(np.isfinite(one.joint) for one in found)
    joints = [one.joint for one in found[:3]]
    assert joints == pytest.approx([scorer.score_set(QUESTION, passages).joint] * 3, abs=1e-4)


def test_the_best_three_passages_are_read_once_each() -> None:
    found = (SetScore((0.1, 0.9, 0.5, 0.9, 0.3), 0.0), ["a", "b", "c", "b", "d"])
    assert best_texts(*found) == ["b", "c", "d"]
    assert best_texts(SetScore((0.1, 0.9), 0.0), ["a", ""]) == ["a"]
    assert best_texts(SetScore((0.1,), 0.0), [""]) == [""]


@pytest.mark.parametrize("form", ["{q}", "{q} {p}", "Q: {q} A: {p}", "{p} {q}"])
def test_of_a_passage_that_repeats_the_question_is_read_what_it_tells(
    scorer: CrossSufficiencyScorer, form: str
) -> None:
    stub = "Dogs must be registered with the city."
    echo = form.format(q=QUESTION, p=stub)
    [(_, texts)] = scorer.read_sets([QUESTION], [[echo, *OTHERS]])
    assert QUESTION not in texts[0]
    attacked, honest, answered = scorer.score_sets(
        [QUESTION] * 3, [[echo, *OTHERS], [stub, *OTHERS], [ANSWER, *OTHERS]]
    )
    assert attacked.joint < answered.joint
    assert abs(attacked.joint - honest.joint) < abs(answered.joint - honest.joint)


def test_a_policy_is_bound_to_both_models_and_both_mixes(
    scorer: CrossSufficiencyScorer, tmp_path: Path
) -> None:
    own = scorer.fingerprint
    assert own.kind == "sufficiency_cross"
    again = load_scorer(own)
    assert again.fingerprint == own
    folder = Path(shutil.copytree(CROSS_FOLDER, tmp_path / "cross"))
    mix = json.loads((folder / MIX_FILE).read_text())
    (folder / MIX_FILE).write_text(json.dumps({**mix, "bias": mix["bias"] + 1.0}))
    changed = CrossSufficiencyScorer(cross_folder=folder)
    assert changed.fingerprint != own
    difference = (
        changed.score_set(QUESTION, OTHERS).joint - scorer.score_set(QUESTION, OTHERS).joint
    )
    assert difference == pytest.approx(1.0, abs=1e-4)


def test_it_serves_as_the_costly_stage_of_a_cascade(
    scorer: CrossSufficiencyScorer, embedded: SufficiencyScorer
) -> None:
    cascade = CascadeScorer(embedded, scorer, threshold=-50.0, reach=100.0)
    guard = Guard(Policy.for_scorer(cascade, threshold=0.5), scorer=cascade, metrics=False)
    decision = guard.decide(QUESTION, [ANSWER])
    assert decision.relevance_stage == "costly"
    awaited = asyncio.run(guard.adecide(QUESTION, [ANSWER]))
    [batched] = guard.decide_batch([QUESTION], [[ANSWER]])
    assert decision.relevance == awaited.relevance == batched.relevance


def test_passages_encoded_ahead_are_used(scorer: CrossSufficiencyScorer, tmp_path: Path) -> None:
    report = index_passages([ANSWER, *OTHERS], tmp_path / "index", SufficiencyScorer())
    assert report.stored == 4
    stored = load_scorer("sufficiency_cross", passages=str(tmp_path / "index"))
    joints = [one.score_set(QUESTION, [ANSWER, *OTHERS]).joint for one in (stored, scorer)]  # type: ignore[attr-defined]
    assert joints[0] == pytest.approx(joints[1], abs=5e-3)


def test_the_bundled_files_are_those_that_were_measured(tmp_path: Path) -> None:
    require_files(CROSS_FOLDER, CROSS_ENCODER_SHA256)
    weights = [
        path
        for top in TOP
        for path in (ROOT / top).rglob("*.safetensors")
        if path.name != ENCODER_WEIGHTS
    ]
    assert {CROSS_FOLDER.name, BUNDLED_FOLDER.name} <= {path.parent.name for path in weights}
    assert sum(path.stat().st_size for path in weights) <= 12e6
    copy = Path(shutil.copytree(CROSS_FOLDER, tmp_path / "copy"))
    (copy / MIX_FILE).write_text("{}")
    with pytest.raises(ModelFolderError, match="reinstall knowgate"):
        require_files(copy, CROSS_ENCODER_SHA256)


def test_a_head_of_another_model_is_rejected(tmp_path: Path) -> None:
    import safetensors.numpy

    copy = Path(shutil.copytree(CROSS_FOLDER, tmp_path / "copy"))
    found = safetensors.numpy.load_file(copy / "head.safetensors")
    found["classifier.bias"] = np.zeros(2, dtype=np.float16)
    safetensors.numpy.save_file(found, copy / "head.safetensors")
    with pytest.raises(ModelFolderError, match="not those of a pooler and a classifier"):
        CrossSufficiencyScorer(cross_folder=copy)
