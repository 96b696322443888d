"""Training of the cross-encoder: what it is shown, that it goes on, and that it is served."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from knowgate.guard.engine import CrossEncoderScorer
from knowgate.guard.model_files import reranker_folder
from tools.sufficiency.cross_pairs import Cutter, Group
from tools.sufficiency.fit_cross import fit_cross_mix
from tools.sufficiency.nothing_told import LEFT, TRAINED, NothingTold
from tools.sufficiency.train_cross import (
    CrossEncoder,
    _Progress,
    _restored,
    _save_checkpoint,
    reranker_tokenizer,
    tokenized,
)
from tools.sufficiency.train_cross import _step as step

SENTENCES = st.lists(
    st.sampled_from(["The ferry runs every hour.", "Is it late?", "Tickets, please!", "Yes."]),
    max_size=60,
)


@given(SENTENCES, SENTENCES, st.integers(45, 100))
def test_a_cut_passage_holds_the_answer_and_is_short(
    before: list[str], behind: list[str], most: int
) -> None:
    text = " ".join([*before, "A ticket costs 12 euros.", *behind])
    cut = Cutter([text], seed=0).cut(text, "What does a ticket cost?", "12 euros", most)
    assert "12 euros" in cut
    assert len(cut.split()) <= most


def test_a_cut_passage_is_made_of_whole_sentences() -> None:
    sentences = [f"Sentence {number} is about the ferry and its timetable." for number in range(30)]
    sentences[20] = "A ticket costs 12 euros on weekdays."
    text = " ".join(sentences)
    cut = Cutter([text], seed=0).cut(text, "What does a ticket cost?", "12 euros", 50)
    assert "12 euros" in cut
    assert all(f"{part}." in sentences for part in cut.removesuffix(".").split(". "))


def test_the_mix_finds_what_made_the_labels_and_has_no_weight_below_0() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, 3))
    odds = 0.5 + rows @ np.array([1.0, 0.6, 0.3])
    labels = (rng.random(len(rows)) < 1 / (1 + np.exp(-odds))).astype(float)
    sources = np.array(["one", "two"] * 10_000)
    mix = fit_cross_mix(rows, labels, sources)
    found = [mix.bias, mix.embedded, mix.best, mix.margin]
    assert found == pytest.approx([0.5, 1, 0.6, 0.3], abs=0.05)
    against = fit_cross_mix(rows * [1, -1, 1], labels, sources)
    assert against.best == 0


@pytest.mark.slow
def test_a_run_that_was_ended_goes_on_and_its_output_is_served(
    ms_marco: None, tmp_path: Path
) -> None:
    batch = [Group("s", "When does it open?", ("It opens at nine.", "Dogs bark."), (1, 0))]
    tokens, labels = tokenized(batch, reranker_tokenizer()), [one.labels for one in batch]
    model = CrossEncoder(rank=2, frozen=11).eval()
    optimizer = torch.optim.AdamW(model.trained(), lr=1e-3)
    for _ in range(3):
        step(model, optimizer, tokens, labels)
    _save_checkpoint(tmp_path, model.trained(), optimizer, _Progress(3, 6))
    after = step(model, optimizer, tokens, labels)

    again = CrossEncoder(rank=2, frozen=11, seed=1).eval()
    restored = torch.optim.AdamW(again.trained(), lr=1e-3)
    assert _restored(tmp_path, again.trained(), restored) == _Progress(3, 6)
    assert torch.allclose(step(again, restored, tokens, labels), after, atol=1e-5)

    model.save(tmp_path)
    served = CrossEncoderScorer(reranker_folder(), adapter=tmp_path)
    pairs = [("When does it open?", text) for text in ("It opens at nine.", "Dogs bark.")]
    with torch.inference_mode():
        trained = model(tokens).numpy()
    # Saved in float16.
    assert np.abs(served.score_pairs(pairs) - trained).max() < 0.01


QUESTION = "How long does Fernwick keep 12 backups of a site?"


def test_what_names_the_subject_is_made_of_the_question_and_nearly_always_names_it() -> None:
    rng = Random(0)
    made = NothingTold(["Oldham", "Port Rowan"], ["paper", "night", "road"], rng)
    texts = [made.passage(QUESTION, ["The site has two owners."]) for _ in range(200)]
    named = [{"backups", "fernwick", "site"} & set(re.findall(r"[a-z]+", t.lower())) for t in texts]
    assert sum(map(bool, named)) > 150
    assert len(set(texts)) > 100


def test_an_answer_about_another_name_or_number_keeps_the_rest() -> None:
    answer = "Fernwick keeps 12 backups for a year."
    made = NothingTold(["Oldham"], ["paper"], Random(1))
    found = {made.swapped(QUESTION, answer) for _ in range(40)}
    assert None not in found
    assert "Oldham keeps 12 backups for a year." in found
    assert any(one and one.startswith("Fernwick") and " 12 " not in one for one in found)
    assert made.swapped("How long are backups kept?", answer) is None


def test_every_fifth_template_is_left_for_evaluation() -> None:
    assert set(LEFT).isdisjoint(TRAINED)
    assert sum("{p}" in one for one in TRAINED) > 100


@given(st.sampled_from(TRAINED), st.integers(0, 99))
def test_every_template_can_be_filled(template: str, seed: int) -> None:
    made = NothingTold(["Oldham"], ["paper"], Random(seed), [template, "{t}: {p}", "{t}"])
    assert made.passage(QUESTION, ["Dogs bark. Cats do not."])
    assert "Dogs bark." in made.beside(QUESTION, "Dogs bark.")
