"""Published rules by name, and how a citation field is read."""

from __future__ import annotations

from typing import Any

import pytest

from knowgate.guard.abstention import Citation
from knowgate.guard.abstention.detector import load_rule
from knowgate.guard.abstention.reading import read_citation

_UNIKNOW_WORDS = (
    "unanswerable", "unknown", "no known", "not known", "do not know", "uncertain", "unclear",
    "no scientific evidence", "no definitive answer", "no right answer", "no concrete answer",
    "no public information", "debate", "impossible to know", "impossible to answer",
    "difficult to predict", "not sure", "irrelevant", "not relevant",
)  # fmt: skip


def test_uniknow_finds_each_of_its_words_in_any_case() -> None:
    for word in _UNIKNOW_WORDS:
        verdict = load_rule("uniknow").detect(f"Well, this is {word.upper()} here.")

        assert (verdict.abstained, verdict.probability) == (True, 1.0)


@pytest.mark.parametrize("reply", ["", "I don't know.", "The context does not say.", "Paris"])
def test_uniknow_misses_what_its_list_does_not_hold(reply: str) -> None:
    verdict = load_rule("uniknow").detect(reply)

    assert (verdict.abstained, verdict.probability) == (False, 0.0)


def test_uaqfact_refuses_exactly_as_coded() -> None:
    for reply, found in [
        ("There is no such team.", True),
        ("He has no brother.", True),
        ("Not a team I know", True),
        ("##None##", True),
        ("#none", True),
        ("nonetheless", True),
        ("He is cannot aware", True),  # "not a" inside "cannot aware"
        ("I'm sorry.", True),
        ("I don't know", True),
        ("unknown", True),
        ("It is unclear.", True),
        ("I don’t", False),
        ("unable to answer", False),
        ("Norway", False),
        ("没有合适的答案", False),
        ("Paris Saint-Germain", False),
    ]:
        verdict = load_rule("uaqfact").detect(reply, citation=None)

        assert (verdict.abstained, verdict.probability) == (found, float(found))


def test_nothing_cited_in_many_spellings() -> None:
    values: list[Any] = [
        None,
        "",
        "  ",
        "no citation",
        "No citation.",
        "No Citations",
        "None",
        "N/A",
        "null",
        "-1",
        -1,
        -0.5,
        float("nan"),
        [],
        {},
        (),
        [None],
        ["no citation"],
        False,
        b"",
        "无",
        "沒有引用",
    ]
    for value in values:
        assert read_citation(value) is Citation.NONE


@pytest.mark.parametrize("value", [0, 3, 1.0, "0", "Fact 3", [0], ["", "a"], {"id": 3}, True])
def test_something_cited_in_many_spellings(value: Any) -> None:
    assert read_citation(value) is Citation.CITED


def test_values_of_other_kinds_say_nothing() -> None:
    assert read_citation(object()) is Citation.UNKNOWN
    assert read_citation([object(), None]) is Citation.UNKNOWN
    nested: list[Any] = []
    nested.append(nested)
    assert read_citation(nested) is Citation.UNKNOWN
