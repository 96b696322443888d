"""Replies of an upstream that are checked against their passages."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.adapters.serve.service import GOOD, Model, chat, chunk, client_of, make_app, make_guard

PATH = "/v1/chat/completions"
FAITHFUL, INVENTED = "We open at nine.", "The museum closes at 7 pm in Boston."


class Speaking(Model):
    """An upstream whose chunks are five characters."""

    async def _chunks(self, body: dict[str, Any]) -> AsyncIterator[bytes]:
        for start in range(0, len(self.text), 5):
            yield chunk(self.text[start : start + 5], body)
        yield b"data: [DONE]\n\n"


async def ask(app: Any, body: dict[str, Any], path: str = PATH) -> httpx.Response:
    async with client_of(app) as client:
        return await client.post(path, json=body)


def told(response: httpx.Response, *, stream: bool) -> tuple[str, list[Any]]:
    """The text of a response, and the verdicts in it."""
    if not stream:
        body = response.json()
        return body["choices"][0]["message"]["content"], body["knowgate"]["support"]
    events = [one.removeprefix("data: ") for one in response.text.split("\n\n") if one.strip()]
    assert events[-1] == "[DONE]"
    found = [json.loads(one) for one in events[:-1]]
    assert all(one["object"] == "chat.completion.chunk" for one in found)
    text = "".join(
        choice["delta"].get("content") or "" for one in found for choice in one["choices"]
    )
    [verdicts] = [
        one["knowgate"]["support"] for one in found if "support" in one.get("knowgate", {})
    ]
    return text, verdicts


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("action", "text"),
    [
        ("flag", f"{FAITHFUL} {INVENTED}"),
        ("mark", f"{FAITHFUL} {INVENTED} [not in the sources]"),
        ("drop", FAITHFUL),
        ("abstain", "No."),
    ],
)
async def test_an_unsupported_reply_ends_as_it_was_configured(
    action: str, text: str, stream: bool
) -> None:
    guard = make_guard(on_unsupported=action)
    app = make_app(guard, Speaking(f"{FAITHFUL} {INVENTED}"), replies="No.")
    found = await ask(app, chat("When?", "The lake is deep.", GOOD, stream=stream))
    said, [verdict] = told(found, stream=stream)
    assert said == text
    assert (verdict["supported"], verdict["calibrated"]) == (False, False)
    cited = [(one["sentence"], one["passage"], one["quote"]) for one in verdict["citations"]]
    assert cited[:1] == ([] if action == "abstain" else [(FAITHFUL, 1, GOOD)])


@pytest.mark.parametrize("stream", [False, True])
async def test_a_supported_reply_passes_unchanged(stream: bool) -> None:
    app = make_app(make_guard(on_unsupported="abstain"), Speaking(FAITHFUL))
    said, [verdict] = told(await ask(app, chat("When?", GOOD, stream=stream)), stream=stream)
    assert (said, verdict["supported"], verdict["support"]) == (FAITHFUL, True, 1.0)


async def test_a_reply_can_be_checked_alone() -> None:
    app = make_app(make_guard(on_unsupported="drop"))
    body = {"reply": f"{FAITHFUL} {INVENTED}", "passages": [GOOD, {"text": "The lake is deep."}]}
    found = (await ask(app, body, "/v1/check")).json()
    assert (found["text"], found["supported"]) == (FAITHFUL, False)
    assert [one["quote"] for one in found["citations"]] == [GOOD]


async def test_without_the_option_there_is_no_such_path() -> None:
    assert (await ask(make_app(), {"reply": "x"}, "/v1/check")).status_code == 404


async def test_a_held_reply_keeps_its_parts_calls_and_usage() -> None:
    parts = [{"type": "text", "text": FAITHFUL}, {"type": "text", "text": INVENTED}]
    calls = [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    message = {"role": "assistant", "content": parts, "tool_calls": calls}
    answer = {
        "id": "1", "object": "chat.completion", "created": 1, "model": "m", "usage": {"total": 9},
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }  # fmt: skip
    model = Model()
    model.fault = lambda number: httpx.Response(200, json=answer)
    body = chat("When?", GOOD, stream=True) | {"stream_options": {"include_usage": True}}
    found = await ask(make_app(make_guard(on_unsupported="drop"), model), body)
    said, [verdict] = told(found, stream=True)
    assert (said.strip(), verdict["supported"]) == (FAITHFUL, False)
    events = [json.loads(one[6:]) for one in found.text.split("\n\n")[:-2]]
    assert events[0]["choices"][0]["delta"]["tool_calls"] == [{"index": 0, **calls[0]}]
    assert events[-1]["usage"] == {"total": 9}


@pytest.mark.parametrize("end", [b"", b"data: [DONE]"])
async def test_a_stream_that_is_whole_by_its_length_gets_its_verdict(end: bytes) -> None:
    class Sized(Model):
        async def __call__(self, request: httpx.Request) -> httpx.Response:
            body = json.loads(request.content)
            events = chunk(FAITHFUL, body | {"model": "m"}).replace(b'"created":', b'"x":') + end
            return httpx.Response(
                200, headers={"content-type": "text/event-stream"}, content=events
            )

    app = make_app(make_guard(on_unsupported="flag"), Sized())
    found = await ask(app, chat("When?", GOOD, stream=True))
    events = [one.removeprefix("data: ") for one in found.text.split("\n\n") if one.strip()]
    told = [json.loads(one) for one in events if one != "[DONE]"]
    assert told[-1]["knowgate"]["support"][0]["supported"]
    assert (events[-1] == "[DONE]") == bool(end)
