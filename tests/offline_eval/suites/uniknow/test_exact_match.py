"""What counts as the same answer."""

from __future__ import annotations

import pytest

from knowgate.offline_eval.suites.uniknow._matching import is_right


@pytest.mark.parametrize(
    ("answer", "accepted", "expected"),
    [
        ("The U.S.", "us", True),
        ("long-term", "long term", True),
        ("long-term", "longterm", True),
        ("1,234", "1234", True),
        ("  A  Red\tHouse. ", "red house", True),
        ("in 1954", "1954", False),
        ("Anne", "Ann", False),
        ("theatre", "atre", False),
        ("the", "a", False),
        ("...", "!", False),
        ("", "", False),
        ("ＮＡＳＡ", "nasa", True),
        ("北京。", "北京", True),
    ],
)
def test_case_punctuation_articles_and_spaces_do_not_matter(
    answer: str, accepted: str, expected: bool
) -> None:
    assert is_right(answer, [accepted]) is expected
