"""What the guard itself says when it abstains is read as an abstention."""

from __future__ import annotations

import pytest

from knowgate.adapters.langchain import Replies
from knowgate.guard import Reason
from knowgate.guard.abstention import AbstentionDetector

ANSWERING = {
    Reason.SUFFICIENT_CONTEXT,
    Reason.CONFLICT_FOLLOWS_CONTEXT,
    Reason.CONFLICT_SHOWS_BOTH,
    Reason.CONFIDENT_MEMORY,
    Reason.SIGNAL_FAILED_FOLLOWS_CONTEXT,
}


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("reason", sorted(set(Reason) - ANSWERING))
def test_every_bundled_reply_is_an_abstention(reason: Reason, language: str) -> None:
    reply = Replies(language=language).to(reason)  # type: ignore[arg-type]
    assert AbstentionDetector().detect(reply).abstained


@pytest.mark.parametrize(
    "reply",
    [
        "We cannot search your bag without consent; an officer must be present.",
        "I found nothing wrong: the fee is $5.",
        "You cannot check in before 3 pm.",
        "用户无法检索密码，请联系客服重置。",
    ],
)
def test_what_only_sounds_like_it_is_an_answer(reply: str) -> None:
    assert not AbstentionDetector().detect(reply).abstained
