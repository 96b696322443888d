"""Contexts are cut so that the model can read them."""

from __future__ import annotations

from dataclasses import dataclass

from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.suites.uniknow._cases import Dataset, PromptSet, Question
from knowgate.offline_eval.suites.uniknow._contexts import fitting_size

PROMPTS = PromptSet("{question}", "{context} {question}", "{question}", "{context} {question}")
DATASET = Dataset(
    "texts",
    (Question("q", "when?", ("noon",), "texts", "g", ("word " * 300 + "noon",)),),
    PROMPTS,
)


@dataclass
class _Windowed(ScriptedLanguageModel):
    """Reads a letter as a token."""

    context_window: int | None = 100

    def __init__(self, context_window: int | None) -> None:
        super().__init__({})
        self.context_window = context_window

    def token_ids(self, text: str) -> list[int]:
        return list(range(len(text)))


def _fit(window: int | None, *, several: bool = False) -> tuple[int, int]:
    return fitting_size(_Windowed(window), DATASET, answer_tokens=8, passages=4, several=several)


def test_a_wide_window_takes_passages_of_the_usual_length() -> None:
    assert _fit(100_000) == (100, 4)
    assert _fit(None) == (100, 4)


def test_a_narrow_window_shortens_passages_and_then_their_number() -> None:
    # 5 tokens a word, 33 for question, prompt and answer: (333 - 33) · .9 / 5 = 54 words.
    assert _fit(333) == (54, 2)
    assert _fit(333, several=True) == (27, 2)
    # 115 words: two passages of 57.
    assert _fit(677, several=True) == (57, 2)


def test_a_passage_never_has_fewer_than_ten_words() -> None:
    assert _fit(40)[0] == 10
