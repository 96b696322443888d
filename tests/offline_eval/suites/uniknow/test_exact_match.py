"""What counts as the same answer."""

from __future__ import annotations

from knowgate.offline_eval.suites.uniknow._matching import is_right


def test_case_punctuation_articles_and_spaces_do_not_matter() -> None:
    for answer, accepted, expected in [
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
    ]:
        assert is_right(answer, [accepted]) is expected
