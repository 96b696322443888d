"""Replies that name every view and its sources."""

from __future__ import annotations

from knowgate.adapters.langchain import Replies
from knowgate.guard import Reason, Route
from knowgate.guard.contracts import View
from tests.adapters.langchain.fakes import DOCUMENTS, Setting

DISAGREE = (View("nine", (0, 2)), View("ten", (3,)), View("noon", (), from_memory=True))


def test_a_conflict_is_shown_with_all_views_and_nothing_is_generated() -> None:
    views = {"grounded": (View("nine", (0,)), View("ten", (1,), from_memory=True))}
    setting = Setting(views=views)

    answer = setting.chain.invoke("grounded")

    assert (answer.decision.route, answer.decision.reason) == (
        Route.FOLLOW_CONTEXT,
        Reason.CONFLICT_SHOWS_BOTH,
    )
    assert answer.answer == (
        "The sources do not agree on this:\n"
        "- According to passage 1: nine\n"
        "- According to passage 3, and from what I know myself: ten"
    )
    assert answer.decision.views == (View("nine", (0,)), View("ten", (2,), from_memory=True))
    assert answer.documents == (DOCUMENTS[0], DOCUMENTS[2])
    assert not answer.abstained
    assert answer.reply_abstained is None
    assert setting.context_model.record.prompts == []
    assert setting.counted("conflict_shows_both") == 1


def test_in_shadow_mode_a_conflict_changes_nothing() -> None:
    views = {"grounded": (View("nine", (0,)), View("ten", (1,)))}
    setting = Setting(views=views, mode="shadow")

    answer = setting.chain.invoke("grounded")

    assert answer.decision.reason is Reason.CONFLICT_SHOWS_BOTH
    assert answer.answer == "from context: grounded"


def test_templates_are_replaced_by_name_and_not_by_the_default_reply() -> None:
    own = Replies(
        {
            "conflict_shows_both": "Two answers: {views}",
            "view_of_passages": "{answer} [{sources}]",
            "default": "Sorry.",
        }
    )
    one = Replies("Sorry.")

    assert own.showing(DISAGREE[:1], []) == "Two answers: nine [passage 1, passage 3]"
    assert own.to(Reason.NEITHER_KNOWS) == one.to(Reason.NEITHER_KNOWS) == "Sorry."
    assert "According to" in one.showing(DISAGREE, [])


def test_braces_and_line_breaks_in_an_answer_stay_text() -> None:
    assert (
        Replies().showing([View("{sources}\n{x}", (0,))], []).endswith("passage 1: {sources} {x}")
    )
