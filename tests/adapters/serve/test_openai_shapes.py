"""Messages of chat completions: what is read of a request, what is written."""

from __future__ import annotations

import json

from knowgate.adapters.serve._errors import as_json
from knowgate.adapters.serve._proxy import GuardedRequest


def request(*messages: dict[str, object], **fields: object) -> GuardedRequest:
    return GuardedRequest.model_validate({"model": "m", "messages": list(messages), **fields})


def test_the_question_is_the_last_message_of_the_user() -> None:
    asked = request(
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "reply"},
        {"role": "user", "content": "second"},
        {"role": "tool", "content": "found", "tool_call_id": "1"},
    )
    assert asked.question == "second"


def test_text_parts_of_a_message_are_joined_and_others_left_out() -> None:
    parts = [
        {"type": "text", "text": "What is"},
        {"type": "image_url", "image_url": {"url": "data:"}},
        {"type": "text", "text": "this?"},
        {"type": "text", "text": 3},
    ]
    assert request({"role": "user", "content": parts}).question == "What is\nthis?"


def test_a_conversation_without_a_user_has_no_question() -> None:
    assert request({"role": "system", "content": "Be brief."}).question is None


def test_any_text_can_be_sent() -> None:
    sent = as_json({"reason": "\ud800", "content": "a\x00\u2028é"})
    assert json.loads(sent) == {"reason": "\ud800", "content": "a\x00\u2028é"}
    assert sent.isascii()
