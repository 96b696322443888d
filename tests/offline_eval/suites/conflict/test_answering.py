"""From replies and likelihoods to chosen options, and passages that fit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowgate.offline_eval.suites.conflict._answering import (
    fitted,
    free_letters,
    halves,
    likeliest,
    read_reply,
)
from knowgate.offline_eval.suites.conflict._rows import Case, Instance, Option, Shown
from knowgate.offline_eval.suites.conflict.items import EvidenceKind, Task
from knowgate.offline_eval.suites.parts import MODEL_SYSTEM

INSTANCE = Instance(
    key="k",
    question="Who runs Rill?",
    options=(
        Option(text="Cy", role="distractor"),
        Option(text="Ann Li", aliases=("Annie Li",), role="belief"),
        Option(text="Bo", role="plausible"),
        Option(text="a teapot", role="implausible"),
    ),
    evidence={
        EvidenceKind.NC: Shown(passage="Ann Li runs Rill.", sentences=("Ann Li runs Rill.",)),
        EvidenceKind.HPC: Shown(passage="Bo runs Rill.", sentences=("Bo runs Rill.",)),
    },
    agreeing_first=True,
)


def planned(task: Task, kind: EvidenceKind = EvidenceKind.HPC) -> Case:
    return Case(MODEL_SYSTEM, task, kind, INSTANCE)


@pytest.mark.parametrize(
    ("values", "several", "wanted"),
    [
        ([-3.0, -0.2, -2.0, -9.0], False, ("B",)),
        ([-3.0, -0.2, -2.0, -9.0], True, ("B",)),
        ([-9.0, -0.7, -0.7, -9.0], True, ("B", "C")),
        ([-1.0, -1.0, -1.0, -1.0], True, ("A", "B", "C", "D")),
        ([-800.0, -700.0, -900.0, -900.0], True, ("B",)),
    ],
)
def test_likelihoods_choose(values: list[float], several: bool, wanted: tuple[str, ...]) -> None:
    assert likeliest(values, several=several) == wanted


def test_both_views_must_be_given_and_nothing_else() -> None:
    def correct(reply: str) -> bool | None:
        return read_reply(planned(Task.PCK), reply, "letters").correct

    assert correct("The passage says Bo, I know Ann Li.\nAnswer: B and C")
    assert not correct("Answer: (C)")
    assert not correct("Answer: A, B, C")


def test_an_explanation_comes_first() -> None:
    reply = "I first thought of (A), yet the passage names Bo.\n\nAnswer: **C**"
    row = read_reply(planned(Task.CK), reply, "letters")
    assert (row.letters, row.right, row.correct) == (("C",), ("C",), True)


def test_a_reply_without_a_letter_is_wrong_and_unread() -> None:
    row = read_reply(planned(Task.PK), "Nobody can say.", "letters")
    assert (row.letters, row.correct) == (None, False)


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        ("Some say Bo. Answer: Annie Li", ("B",)),
        ("Answer: Bo (by the passage) and Ann Li (as I know it)", ("B", "C")),
        ("It is Bo.", ("C",)),
        ("Final answer: nobody", ()),
        ("Bold claims", ()),
        ("Answer: Ann Li of Bo", ("B", "C")),
    ],
)
def test_free_replies_are_matched_after_the_last_announcement(
    reply: str, wanted: tuple[str, ...]
) -> None:
    assert free_letters(reply, INSTANCE) == wanted


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        ("Bo runs Rill.", True),
        ('The sentence is "Bo runs Rill".', True),
        ("Bo", False),
        ("Ann Li runs Rill.", False),
    ],
)
def test_the_answering_sentence_must_be_copied(reply: str, wanted: bool) -> None:
    row = read_reply(planned(Task.KF), reply, "letters")
    assert (row.correct, row.letters, row.right) == (wanted, None, ())


@given(st.text(max_size=300), st.sampled_from(Task), st.sampled_from(["letters", "free"]))
def test_any_reply_gives_a_row(reply: str, task: Task, form: str) -> None:
    row = read_reply(planned(task), reply, form)  # type: ignore[arg-type]
    assert row.correct in (True, False)
    assert set(row.letters or ()) <= set("ABCD")


class Window:
    """Reads so many words."""

    def __init__(self, window: int) -> None:
        self.context_window = window

    def token_ids(self, text: str) -> list[int]:
        return list(range(len(text.split())))


def fill(passages: Sequence[str]) -> str:
    return " | ".join(passages)


def test_the_answers_sentence_goes_last() -> None:
    passages = ["First one here. Ann runs it. Last one here."]
    assert fitted(fill, passages, {"Ann runs it."}, Window(6), 2) == ("Ann runs it.", True)


def test_as_many_sentences_stay_as_fit() -> None:
    passage = " ".join(f"Sentence {n} is here." for n in range(50)) + " Ann runs it."
    prompt, cut = fitted(fill, [passage, "Bo ran it. He left."], {"Ann runs it."}, Window(40), 3)
    assert cut
    first, second = prompt.split(" | ")
    # 37 words: 7 sentences of 4, the answer's 3 and the other passage's 5 with the bar between.
    assert first == " ".join(f"Sentence {n} is here." for n in range(7)) + " Ann runs it."
    assert second == "Bo ran it. He left."


def test_a_huge_passage_is_cut_in_few_counts() -> None:
    class Counting(Window):
        counted = 0

        def token_ids(self, text: str) -> list[int]:
            self.counted += len(text)
            return super().token_ids(text)

    window, passage = Counting(60), "Some words stand in here. " * 20_000
    prompt, cut = fitted(fill, [passage], set(), window, 10)
    assert (len(prompt.split()), cut) == (50, True)
    assert window.counted < 4 * len(passage)


def test_a_passage_is_halved_at_a_sentence() -> None:
    assert halves("A b. C d. E f.") == ["A b. C d.", "E f."]
    assert halves("A b.") == ["A b.", ""]
