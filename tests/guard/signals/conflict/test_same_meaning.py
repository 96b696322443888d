"""Rules, then embedding, then entailment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from knowgate.guard.contracts import EntailmentModel
from knowgate.guard.errors import SignalValueError
from knowgate.guard.signals.conflict import AnswerConflict, CrossEncoderEntailment, SameMeaning
from knowgate.guard.testing import ScriptedLanguageModel
from tests.support.tables import table


class Angles:
    """Embeds a text as the unit vector at a scripted angle, in degrees."""

    def __init__(self, angles: Mapping[str, float], default: float = 0.0) -> None:
        self._angles, self._default = angles, default
        self.calls = 0

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls += 1
        angles = np.radians([self._angles.get(text, self._default) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


class Entails:
    """Answers from a script, and keeps what it was asked."""

    def __init__(self, verdict: Any) -> None:
        self._verdict = verdict
        self.asked: list[tuple[str, str]] = []

    def entails(self, premise: str, hypothesis: str) -> Any:
        self.asked.append((premise, hypothesis))
        return self._verdict


def test_without_models_rules_decide_and_what_they_leave_open_differs() -> None:
    same = SameMeaning()

    assert same("Paris", "It is Paris, the capital of France")
    assert not same("23", "32")
    assert not same("New York", "the Big Apple")


@pytest.mark.parametrize(("angle", "expected"), [(0, True), (40, True), (50, False), (180, False)])
def test_the_cosine_decides_what_the_rules_leave_open(angle: float, expected: bool) -> None:
    same = SameMeaning(Angles({"the Big Apple": angle}), threshold=0.7)

    assert same("New York", "the Big Apple") is expected
    assert same("the Big Apple", "New York") is expected


@pytest.mark.parametrize(
    ("first", "second"),
    table(__file__, "no cosine makes numbers dates or negations the same"),
)
def test_no_cosine_makes_numbers_dates_or_negations_the_same(first: str, second: str) -> None:
    assert not SameMeaning(Angles({}), threshold=-1.0)(first, second)


def test_what_a_rule_decides_asks_no_model() -> None:
    angles, nli = Angles({}), Entails(True)
    same = SameMeaning(angles, nli)

    assert same("23", "twenty-three")
    assert not same("23", "32")
    assert (angles.calls, nli.asked) == (0, [])


@pytest.mark.parametrize("verdict", [True, 0.5, 0.9, np.float32(0.9), np.bool_(True)])
def test_entailment_both_ways_decides_from_the_floor_on(verdict: Any) -> None:
    nli = Entails(verdict)
    same = SameMeaning(Angles({"the Big Apple": 60}), nli)

    assert same.about("Which city?")("New York", "the Big Apple")
    assert nli.asked == [
        ("Which city? New York", "Which city? the Big Apple"),
        ("Which city? the Big Apple", "Which city? New York"),
    ]


@pytest.mark.parametrize("verdict", [False, 0.49])
def test_one_direction_without_entailment_is_not_the_same(verdict: Any) -> None:
    assert not SameMeaning(nli=Entails(verdict))("New York", "the Big Apple")
    assert not SameMeaning(Angles({}), Entails(verdict))("New York", "the Big Apple")


def test_below_the_floor_entailment_is_not_asked() -> None:
    nli = Entails(True)

    assert not SameMeaning(Angles({"the Big Apple": 90}), nli)("New York", "the Big Apple")
    assert nli.asked == []


def test_entailment_may_settle_what_a_cosine_may_not() -> None:
    assert SameMeaning(Angles({}), Entails(True))("Apollo", "Apollo 11")


@pytest.mark.parametrize("verdict", [None, "yes", 1.5, float("nan")])
def test_an_entailment_that_is_no_verdict_is_an_error(verdict: Any) -> None:
    with pytest.raises(SignalValueError, match="entailment"):
        SameMeaning(nli=Entails(verdict))("New York", "the Big Apple")


def test_an_embedding_of_nan_is_an_error() -> None:
    with pytest.raises(SignalValueError, match="NaN"):
        SameMeaning(Angles({}, default=float("nan")))("New York", "the Big Apple")


def test_the_embedded_bi_encoder_is_had_by_name() -> None:
    same = SameMeaning("bi_encoder")

    assert same("the United States of America", "United States")
    assert not same("Kansas", "the Pacific Ocean")
    assert not same("北京", "上海")  # English is all it reads


def test_a_conflict_is_judged_by_meaning() -> None:
    model = ScriptedLanguageModel({"nine": "It is nine in the morning, every day."})

    assert AnswerConflict(model).detect("When?", "nine", ["At nine."])
    assert not AnswerConflict(model, same=SameMeaning()).detect("When?", "nine", ["At nine."])


# -- a cross-encoder from disk -------------------------------------------------------------


def _saved(folder: Path, labels: Mapping[int, str]) -> Path:
    """A tiny untrained classifier with a word-level tokenizer."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    library: Any = transformers

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "paris", "london", "it", "is"]
    tokenizer = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    library.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = library.BertConfig(
        vocab_size=len(words),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
        max_position_embeddings=64,
        num_labels=len(labels),
        id2label=dict(labels),
        label2id={name: index for index, name in labels.items()},
    )
    library.BertForSequenceClassification(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def nli_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    labels = {0: "contradiction", 1: "ENTAILMENT", 2: "neutral"}
    return _saved(tmp_path_factory.mktemp("nli"), labels)


def test_a_cross_encoder_gives_the_probability_of_its_entailment_label(nli_folder: Path) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = CrossEncoderEntailment(nli_folder, device="cpu")
    inputs = AutoTokenizer.from_pretrained(nli_folder)("paris", "it is paris", return_tensors="pt")
    network = AutoModelForSequenceClassification.from_pretrained(nli_folder).eval()
    with torch.inference_mode():
        expected = float(network(**inputs).logits[0].softmax(-1)[1])

    found = model.probability("paris", "it is paris")

    assert found == pytest.approx(expected, abs=1e-5)
    assert CrossEncoderEntailment(nli_folder, threshold=0.0).entails("paris", "london")
    assert not CrossEncoderEntailment(nli_folder, threshold=1.0).entails("paris", "london")
    assert isinstance(model, EntailmentModel)
    assert model.fingerprint.startswith("cross_encoder:")


def test_texts_beyond_the_models_length_are_cut(nli_folder: Path) -> None:
    model = CrossEncoderEntailment(nli_folder, device="cpu", max_length=32)

    assert 0.0 <= model.probability("paris " * 500, "london\ud800 " * 500) <= 1.0


def test_a_subclass_judges_in_each_form() -> None:
    class Never(SameMeaning):
        def judge(self, first: str, second: str, *, question: str = "") -> bool:
            return bool(question)

    assert not Never()("Paris", "Paris")
    assert Never().about("Where?")("Paris", "Paris")
