"""Chosen letters in what models really write."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.offline_eval.judging.multiple_choice import MultipleChoice

OPTIONS = ["Ann Li", "Bo Ek", "Ann Li of Rill", "1999"]


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        ("A", "A"),
        ("b", "B"),
        ("(B)", "B"),
        ("(b)", "B"),
        ("B.", "B"),
        ("B) Bo Ek", "B"),
        ("**B**", "B"),
        ("**Answer:** B", "B"),
        ("Answer: B and D", "BD"),
        ("Answer: A, B, and D.", "ABD"),
        ("A/C", "AC"),
        ("A & C", "AC"),
        ("The answer is (C).", "C"),
        ("The correct option is B because the passage says so.", "B"),
        ("The correct answers are: (A) and (D)", "AD"),
        ("Final answer: options B, D", "BD"),
        ("I would choose option D.", "D"),
        ("\\boxed{B}", "B"),
        ("\\boxed{\\text{B}}", "B"),
        ("<answer>D</answer>", "D"),
        ('{"explanation": "…", "answer": "B"}', "B"),
        ('{"answers": ["A", "D"]}', "A"),
        ("答案：B", "B"),
        ("答案是（A）和（D）。", "AD"),
        ("正确答案为Ａ、Ｄ", "AD"),
        ("我选B", "B"),
        ("Let me think. (A) is wrong. The passage states 1999, so (D) fits.", "D"),
        ("Explanation: A is out of date.\n\nB", "B"),
        ("Explanation: it was so.\nA and B", "AB"),
        ("It must have been Bo Ek.", "B"),
        ("Ann Li of Rill", "C"),
        ("Ann Li", "A"),
        ("Not Ann Li, but Bo Ek.", "B"),
        ("Options were Ann Li, Bo Ek and 1999. In the end it is 1999.", "D"),
        ("The answer is Bo Ek", "B"),
        ("First I thought the answer is A. On reflection, the answer is D.", "D"),
        ("", None),
        ("   \n", None),
        ("I cannot tell.", None),
        ("A person from Rill.", None),
        ("I do not know a better one.", None),
        ("E", None),
        ("None of these.", None),
    ],
)
def test_letters_are_read(reply: str, wanted: str | None) -> None:
    assert MultipleChoice.parse(reply, OPTIONS) == (None if wanted is None else tuple(wanted))


@settings(deadline=None)
@given(st.text(max_size=400), st.lists(st.text(max_size=20), min_size=1, max_size=8))
def test_any_reply_gives_letters_of_the_options_or_none(reply: str, options: list[str]) -> None:
    found = MultipleChoice.parse(reply, options)
    if found is not None:
        assert found
        assert list(found) == sorted(set(found))
        assert set(found) <= set(MultipleChoice.LETTERS[: len(options)])
