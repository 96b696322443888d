"""Views of passages and memory: who says what, and what contradicts what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard import LanguageModelError
from knowgate.guard.contracts import ConflictFinding, View
from knowgate.guard.signals.conflict import AnswerConflict, PassageConflict, SameMeaning
from knowgate.guard.testing import ScriptedLanguageModel as Scripted

NINE, TEN, SILENT, ODD = "Opens at nine.", "Opens at ten.", "Says nothing.", "Opens at odd hours."
SAID = {NINE: "It is nine.", TEN: "10", SILENT: "not stated", ODD: "9"}


def detector(**changes: Any) -> PassageConflict:
    return PassageConflict(Scripted(SAID), **({"same": SameMeaning()} | changes))


@pytest.mark.parametrize(
    ("memory", "passages", "kind", "views"),
    [
        ("", [NINE], "none", [View("It is nine.", (0,))]),
        ("", [NINE, TEN], "passages", [View("It is nine.", (0,)), View("10", (1,))]),
        ("nine", [NINE, ODD], "none", [View("It is nine.", (0, 1), from_memory=True)]),
        ("ten", [NINE], "memory", [View("It is nine.", (0,)), View("ten", (), True)]),
        ("10", [NINE, TEN], "passages", [View("It is nine.", (0,)), View("10", (1,), True)]),
        (
            "noon",
            [NINE, SILENT, TEN],
            "both",
            [View("It is nine.", (0,)), View("10", (2,)), View("noon", (), True)],
        ),
        ("noon", [SILENT, SILENT], "none", [View("noon", (), True)]),
        ("I don't know", [NINE, SILENT], "none", [View("It is nine.", (0,))]),
        ("", [SILENT], "none", []),
        ("noon", [], "none", [View("noon", (), True)]),
        ("noon", ["", "  "], "none", [View("noon", (), True)]),
        ("", [TEN, NINE, TEN], "passages", [View("10", (0, 2)), View("It is nine.", (1,))]),
    ],
)
async def test_every_answer_is_a_view_with_its_sources(
    memory: str, passages: list[str], kind: str, views: list[View]
) -> None:
    finding = detector().examine("When?", memory, passages)

    assert (finding.kind, list(finding.views)) == (kind, views)
    assert finding.conflict is (kind != "none")
    assert detector().detect("When?", memory, passages) is finding.conflict
    assert await detector().aexamine("When?", memory, passages) == finding
    assert await detector().adetect("When?", memory, passages) is finding.conflict


def test_the_answers_to_one_question_are_one_call_without_repeated_prompts() -> None:
    model = Scripted(SAID)

    PassageConflict(model).examine("When?", "", [NINE, TEN, NINE, " "])

    assert (model.calls, model.generated) == (1, 2)


def test_without_passages_the_model_is_not_asked() -> None:
    model = Scripted(SAID)

    assert not PassageConflict(model).detect("When?", "nine", [])
    assert not AnswerConflict(model).detect("When?", "nine", [])
    assert model.calls == 0


def test_a_vaguer_answer_does_not_join_two_that_differ() -> None:
    model = Scripted({"[a]": "14 December 1972", "[b]": "December 1972", "[c]": "15 December 1972"})
    watched = PassageConflict(model, same=SameMeaning())

    for order in (["[a]", "[b]", "[c]"], ["[b]", "[a]", "[c]"], ["[c]", "[a]", "[b]"]):
        assert watched.examine("When?", "", order).kind == "passages"


def test_an_error_of_the_model_is_passed_on() -> None:
    with pytest.raises(LanguageModelError):
        PassageConflict(Scripted(error=LanguageModelError("down"))).detect("When?", "", [NINE])


# -- memory against all passages together ---------------------------------------------------


@pytest.mark.parametrize(
    ("memory", "kind", "views"),
    [
        ("It is nine", "none", [View("It is nine.", (0, 1), True)]),
        ("nine", "none", [View("It is nine.", (0, 1), True)]),
        ("noon", "memory", [View("It is nine.", (0, 1)), View("noon", (), True)]),
        ("I don't know", "none", [View("It is nine.", (0, 1))]),
        ("", "none", [View("It is nine.", (0, 1))]),
    ],
)
async def test_memory_is_compared_with_the_answer_from_all_passages(
    memory: str, kind: str, views: list[View]
) -> None:
    watched = AnswerConflict(Scripted(SAID), same=SameMeaning())

    finding = watched.examine("When?", memory, [NINE, TEN])

    assert (finding.kind, list(finding.views)) == (kind, views)
    assert watched.detect("When?", memory, [NINE, TEN]) is (kind != "none")
    assert await watched.aexamine("When?", memory, [NINE, TEN]) == finding
    assert await watched.adetect("When?", memory, [NINE, TEN]) is (kind != "none")


def test_a_context_that_says_nothing_contradicts_nothing() -> None:
    watched = AnswerConflict(Scripted(SAID))

    assert watched.examine("When?", "noon", [SILENT]).views == (View("noon", (), True),)


# -- findings -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "counted"),
    [
        ("none", set()),
        ("memory", {"memory", "both"}),
        ("passages", {"passages", "both"}),
        ("both", {"memory", "passages", "both"}),
    ],
)
def test_a_finding_counts_where_its_kind_is_looked_for(kind: Any, counted: set[str]) -> None:
    finding = ConflictFinding(kind != "none", kind)

    assert {b for b in ("memory", "passages", "both") if finding.counts(b)} == counted


def test_passages_of_a_finding_can_be_renumbered() -> None:
    finding = ConflictFinding.of([View("a", (0, 2)), View("b", (1,), True)])

    assert finding.at([3, 5, 8]).views == (View("a", (3, 8)), View("b", (5,), True))
    assert finding.at([3, 5, 8]).kind == "passages"


@given(st.lists(st.sampled_from([NINE, TEN, SILENT, ODD, ""]), max_size=6))
@settings(max_examples=20, deadline=None)
def test_views_share_no_passage_and_miss_none_that_answers(passages: Sequence[str]) -> None:
    finding = detector().examine("When?", "noon", passages)

    supported = [index for view in finding.views for index in view.passages]
    assert sorted(supported) == [i for i, p in enumerate(passages) if p not in (SILENT, "")]
    assert all(view.passages or view.from_memory for view in finding.views)
