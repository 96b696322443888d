"""The trained scorer: every way of scoring agrees, and a policy is bound to what they are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard import InputError, RelevanceScorer
from knowgate.guard.contracts import SetRelevanceScorer
from knowgate.guard.engine.encoder import TokenEncoder
from knowgate.guard.errors import ModelFolderError
from knowgate.guard.fingerprint import read_loosely
from knowgate.guard.model_files import BUNDLED_SHA256, require_files
from knowgate.guard.signals.relevance import load_scorer
from knowgate.guard.signals.relevance.late_interaction import (
    QuestionTokens,
    joined,
    match,
    match_values,
)
from knowgate.guard.signals.relevance.match_model import FEATURES
from knowgate.guard.signals.relevance.sufficiency import BUNDLED_FOLDER, SufficiencyScorer
from tests.support.tuned_folders import some_mix, write_folder

QUESTION = "When does the library open, and who may borrow books?"
PASSAGES = [
    "The library opens at nine.",
    "Residents of the town may borrow books.",
    "The swimming pool is closed on Mondays.",
    "Dogs must be registered. " * 90,
    "",
    "图书馆 naïve \ud800 \x00 🙂 الكتب",
]
ODD = [
    "",
    " \n\t",
    "\x00\x01\x02\xff" * 300,
    "\ud800",
    "x" * 200_000,
    "word " * 20_000,
    "图书馆九点开门。The library 图书馆 opens у девять.",
    "[CLS] [SEP] [PAD] [UNK] [MASK]",
    "\u202e\u200b\ufeff",
]


def test_the_scorer_keeps_the_contracts(scorer: SufficiencyScorer) -> None:
    assert isinstance(scorer, RelevanceScorer)
    assert isinstance(scorer, SetRelevanceScorer)


def test_the_score_is_the_mix_of_the_match_features(
    scorer: SufficiencyScorer, trained: TokenEncoder
) -> None:
    tokens = QuestionTokens.of(trained.encode_first([QUESTION])[0], scorer._idf)
    encoded = trained.encode(PASSAGES[:2])
    found = [match(tokens, windows, trained.stride) for windows in encoded]
    values = [match_values(tokens, one, 0.06) for one in (*found, joined(found))]
    first, second, together = ([one[name] for name in FEATURES] for one in values)

    judged = scorer.score_set(QUESTION, PASSAGES[:2])

    mix = some_mix(FEATURES)
    assert judged.scores == (mix.passage_score(first), mix.passage_score(second))
    assert judged.joint == mix.joint_score([first, second], together)
    assert scorer.match_features([QUESTION], [PASSAGES[:2]]) == [([first, second], together)]


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(chosen=st.lists(st.sampled_from(PASSAGES), min_size=1, max_size=6), data=st.data())
def test_every_way_of_scoring_agrees_to_the_last_bit(
    scorer: SufficiencyScorer, chosen: list[str], data: st.DataObject
) -> None:
    judged = scorer.score_set(QUESTION, chosen)
    assert list(judged.scores) == scorer.score(QUESTION, chosen).tolist()
    assert list(judged.scores) == [scorer.score_pairs([(QUESTION, p)])[0] for p in chosen]
    assert scorer.score_sets([PASSAGES[0], QUESTION], [PASSAGES, chosen])[1] == judged
    order = data.draw(st.permutations(range(len(chosen))))
    shuffled = scorer.score_set(QUESTION, [chosen[i] for i in order])
    assert shuffled.joint == judged.joint
    assert shuffled.scores == tuple(judged.scores[i] for i in order)


def test_the_scorer_agrees_with_itself(scorer: SufficiencyScorer) -> None:
    judged = scorer.score_set(QUESTION, PASSAGES)
    assert list(judged.scores) == scorer.score(QUESTION, PASSAGES).tolist()
    pairs = [(QUESTION, passage) for passage in reversed(PASSAGES)]
    assert scorer.score_pairs(pairs)[::-1].tolist() == list(judged.scores)


@pytest.mark.slow
def test_a_cold_cache_gives_the_same_bits_as_a_warm_one(
    scorer: SufficiencyScorer, folder: Path
) -> None:
    cold = SufficiencyScorer(folder, device="cpu", cache_bytes=0)
    assert cold.score_set(QUESTION, PASSAGES) == scorer.score_set(QUESTION, PASSAGES)


def test_many_questions_are_scored_as_each_alone(scorer: SufficiencyScorer) -> None:
    # More passages than are encoded in one round, few of them different.
    questions = [f"What does room {i % 5} cost?" for i in range(90)]
    passages = [[f"Room {i % 4} costs {i % 4} euros.", "No.", "Dogs."] for i in range(90)]
    together = scorer.score_sets(questions, passages)
    for i in (0, 85, 89):
        assert together[i] == scorer.score_set(questions[i], passages[i])


def test_one_passage_together_is_one_passage_alone(scorer: SufficiencyScorer) -> None:
    judged = scorer.score_set(QUESTION, PASSAGES[:1])
    assert judged.joint == judged.scores[0]


def test_two_half_answers_match_better_than_either(scorer: SufficiencyScorer) -> None:
    [(vectors, together)] = scorer.match_features([QUESTION], [PASSAGES[:2]])
    place = FEATURES.index("idf_match")
    assert together[place] > max(vector[place] for vector in vectors)


@pytest.mark.slow
def test_odd_texts_get_finite_scores(scorer: SufficiencyScorer) -> None:
    for question in (QUESTION, "", "\ud800", "?"):
        judged = scorer.score_set(question, ODD)
        assert np.isfinite([*judged.scores, judged.joint]).all()


def test_scripts_that_the_model_does_not_know_are_not_supported(scorer: SufficiencyScorer) -> None:
    assert scorer.supports(QUESTION)
    assert not scorer.supports("图书馆什么时候开门？")
    assert not scorer.supports("中文…")


def test_the_fingerprint_changes_with_the_mix_and_nothing_else_of_the_call(
    folder: Path, scorer: SufficiencyScorer, trained: TokenEncoder
) -> None:
    def made(**more: Any) -> SufficiencyScorer:
        return SufficiencyScorer(folder, encoder=trained, **more)

    assert made().fingerprint == scorer.fingerprint
    assert made(model=some_mix(FEATURES, bias=-3.5)).fingerprint != scorer.fingerprint
    assert scorer.fingerprint.kind == "sufficiency"


@pytest.mark.slow
def test_the_fingerprint_changes_with_the_adapter_and_its_scale(
    folder: Path, scorer: SufficiencyScorer, trained: TokenEncoder, tmp_path: Path
) -> None:
    other = write_folder(tmp_path / "other", seed=2)
    scaled = Path(shutil.copytree(folder, tmp_path / "scaled"))
    path = scaled / "adapter_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**config, "lora_alpha": 8}), encoding="utf-8")
    # The encoder is shared to save time: what a fingerprint names are the files.
    found = [
        SufficiencyScorer(place, encoder=trained).fingerprint for place in (folder, other, scaled)
    ]
    assert found[0] == scorer.fingerprint
    assert len({one.model_dump_json() for one in found}) == 3


@pytest.mark.slow
def test_two_adapters_give_two_scores(scorer: SufficiencyScorer, tmp_path: Path) -> None:
    other = SufficiencyScorer(write_folder(tmp_path, seed=2), device="cpu")
    assert other.score(QUESTION, PASSAGES[:1]) != scorer.score(QUESTION, PASSAGES[:1])


@pytest.mark.slow
def test_a_tuned_folder_is_loaded_by_its_path(folder: Path, scorer: SufficiencyScorer) -> None:
    found = load_scorer(str(folder))
    assert isinstance(found, SufficiencyScorer)
    assert found.fingerprint == scorer.fingerprint
    assert found.score(QUESTION, PASSAGES[:2]).tolist() == (
        scorer.score(QUESTION, PASSAGES[:2]).tolist()
    )


def test_another_folder_is_still_taken_for_a_bi_encoder(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match=r"no model\.safetensors"):
        load_scorer(str(tmp_path))


def test_a_tuned_scorer_knows_the_questions_that_it_was_tuned_on(
    folder: Path, scorer: SufficiencyScorer, trained: TokenEncoder, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    SufficiencyScorer.save_tuned_on(copy, ["When does it  open?", "Who runs it?"])
    tuned = SufficiencyScorer(copy, encoder=trained)

    assert tuned.tuned_on("when does it open? ")
    assert not tuned.tuned_on("When does it close?")
    assert not scorer.tuned_on("When does it open?")
    assert tuned.fingerprint == scorer.fingerprint
    # Its questions cannot be read from the folder.
    assert "open" not in (copy / "tuned_on.json").read_text(encoding="utf-8")

    (copy / "tuned_on.json").write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match=r"tuned_on.json: .*knowgate tune relevance"):
        SufficiencyScorer(copy, encoder=trained).tuned_on("Who runs it?")


def test_the_adapter_changes_every_feature_but_the_coverage(
    scorer: SufficiencyScorer, folder: Path, base: TokenEncoder
) -> None:
    [([vector], together)] = scorer.match_features([QUESTION], [PASSAGES[:1]])
    assert vector == together
    untrained = SufficiencyScorer(folder, encoder=base)
    [([other], _)] = untrained.match_features([QUESTION], [PASSAGES[:1]])
    # Coverage counts word pieces, which the adapter does not change.
    assert vector[-1] == other[-1]
    assert all(a != b for a, b in zip(vector[:-1], other[:-1], strict=True))


def test_the_bundled_files_are_those_that_were_measured() -> None:
    assert set(BUNDLED_SHA256) == {
        "adapter_config.json",
        "adapter_model.safetensors",
        "sufficiency.json",
    }
    require_files(BUNDLED_FOLDER, BUNDLED_SHA256)
    size = sum((BUNDLED_FOLDER / name).stat().st_size for name in BUNDLED_SHA256)
    assert size <= 4 * 1024 * 1024


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_bundled_files_that_are_not_those_shipped_are_refused(tmp_path: Path, damage: str) -> None:
    copy = Path(shutil.copytree(BUNDLED_FOLDER, tmp_path / "copy"))
    path = copy / "sufficiency.json"
    if damage == "changed":
        path.write_text(path.read_text(encoding="utf-8") + " ", encoding="utf-8")
    else:
        path.unlink()
    with pytest.raises(
        ModelFolderError, match=r"sufficiency\.json: the sha256 is .* — reinstall knowgate"
    ):
        require_files(copy, BUNDLED_SHA256)


@pytest.mark.slow
def test_the_bundled_scorer_tells_an_answer_from_its_neighbours() -> None:
    scorer = load_scorer("sufficiency")
    assert isinstance(scorer, SufficiencyScorer)
    question = "What does a day ticket for the ferry cost?"
    answer = "A day ticket for the ferry is 12 euros, 6 for children."
    others = [
        "The ferry runs every hour from seven to nine.",
        "Day tickets for the museum are sold at the desk.",
        "Bicycles may be taken on the ferry.",
    ]
    scores = scorer.score(question, [answer, *others])
    assert scores.argmax() == 0
    with_it = scorer.score_set(question, [answer, *others[:2]])
    assert with_it.joint > scorer.score_set(question, others).joint


def test_a_question_below_the_passage_adds_nothing_and_a_strict_reading_takes_none() -> None:
    cheap = load_scorer("sufficiency")
    assert isinstance(cheap, SufficiencyScorer)
    question, near = "How long is the free trial of the Team plan?", "The Team plan has five seats."
    told, below, above = cheap.score(
        question, [near, f"{near}\n\n{question}", f"{question}\n\nIt lasts 21 days."]
    )
    assert below <= told < above
    strict = load_scorer("strict:sufficiency")
    assert read_loosely(strict.fingerprint) == cheap.fingerprint
    assert strict.fingerprint.kind == "sufficiency_strict"
    assert cheap.strict is not None
    assert cheap.strict.fingerprint == strict.fingerprint != cheap.fingerprint
    mention = "Details on the free trial of the Team plan are announced in the coming weeks."
    assert strict.score(question, [f"{question}\n\nIt lasts 21 days."])[0] < above
    assert strict.score(question, [mention])[0] < cheap.score(question, [mention])[0]
    with pytest.raises(InputError, match="no strict reading"):
        load_scorer("strict:lexical")
