"""Replies of an upstream, checked against the passages that they were generated from."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pydantic import BaseModel

from ...guard import KnowgateError
from ...guard.errors import NO_JSON
from ...guard.reply_check import ReplyChecker
from ...guard.signals.support.contracts import ReplyVerdict
from ...guard.signals.support.reading import sentence_spans
from ..langchain import Replies
from ._bodies import as_json, fields_of, read_object

_DONE = b"data: [DONE]\n\n"
_END_OF_EVENT = re.compile(rb"\r?\n\r?\n")
_MOST_HELD = 2**20
# Of a stream that is passed on: the most text that is kept to be checked at its end.
_MOST_CHARACTERS = 200_000


@dataclass(frozen=True, slots=True)
class ReplyGate:
    """Checks the replies to one request.

    Args:
        checker: of the guard.
        replies: has the refusal.
        passages: texts that the model was given.
        places: of these among the passages of the request.
        question: what was asked.
    """

    checker: ReplyChecker
    replies: Replies
    passages: Sequence[str]
    places: Sequence[int]
    question: str

    async def judged(self, reply: str) -> tuple[str, dict[str, Any]]:
        """Return what is delivered of a reply, and what the response tells of it.

        Raises:
            SignalError: the check failed, under `on_error="raise"`.
        """
        verdict = await self.checker.ajudge(reply, self.passages, self.question)
        body = verdict_body(verdict, self.passages, self.places)
        return self.replies.delivered(verdict), body

    async def completion(self, found: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
        """Return a completion with what is delivered of each choice, and the verdicts on them."""
        choices, verdicts = [], []
        for choice in found.get("choices") or ():
            known = fields_of(fields_of(choice).get("message"))
            text, verdict = text_of(known.get("content")), None
            if text.strip():
                told, verdict = await self.judged(text)
                if told != text:
                    # Reasoning and log-probabilities would tell what is not delivered.
                    kept = {key: known[key] for key in ("role", "tool_calls") if key in known}
                    own = {key: choice[key] for key in ("index", "finish_reason") if key in choice}
                    choice = {**own, "message": {**kept, "content": told}}  # noqa: PLW2901
            choices.append(choice)
            verdicts.append(verdict)
        return {**found, "choices": choices}, verdicts

    async def streamed(self, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The events of a stream as they come, with the verdicts in one before its end."""
        texts: dict[int, str] = {}
        start: dict[str, Any] = {}
        ended, event = False, _DONE
        async for event in events:
            if event.strip().removeprefix(b"data:").strip() == b"[DONE]":
                ended = True
                yield await self._last(texts, start)
            else:
                start = _told_by(event, texts) or start
            yield event
        if not event.endswith((b"\n\n", b"\r\n\r\n")):
            yield b"\n\n"
        if texts and not ended:
            # Whole by its length, as some servers end theirs.
            yield await self._last(texts, start)

    async def _last(self, texts: Mapping[int, str], start: Mapping[str, Any]) -> bytes:
        try:
            verdicts: list[Any] = [(await self.judged(texts[index]))[1] for index in sorted(texts)]
        except KnowgateError:
            # The reply is out already.
            verdicts = [None] * len(texts)
        return event_of({**start, "choices": [], "knowgate": {"support": verdicts}})


def verdict_body(
    verdict: ReplyVerdict,
    passages: Sequence[str],
    places: Sequence[int],
) -> dict[str, Any]:
    """Return a verdict as JSON, with the citations of what is delivered.

    Args:
        verdict: on a reply.
        passages: that the model was given.
        places: of these among the passages of the request.
    """
    told, support = verdict.text or "", verdict.support
    citations = [
        {
            "sentence": told[one.start : one.end],
            "support": one.support,
            "passage": None if one.passage is None else places[one.passage],
            "start": one.passage_start,
            "end": one.passage_end,
            "quote": ""
            if one.passage is None
            else passages[one.passage][one.passage_start : one.passage_end],
        }
        for one in (() if support is None else support.sentences)
        if one.support is not None
    ]
    return {
        "supported": verdict.supported,
        "support": None if support is None else support.value,
        "calibrated": verdict.calibrated,
        "citations": citations,
    }


def events_of(
    completion: Mapping[str, Any], extension: dict[str, Any], *, with_usage: bool = False
) -> Iterator[bytes]:
    """The events of a stream that tells a whole completion, sentence by sentence.

    Args:
        completion: of the upstream, checked.
        extension: the field `knowgate` of the first event.
        with_usage: whether the tokens that it took stand in an event before the end.
    """
    start = {
        **{key: value for key, value in completion.items() if key not in {"choices", "usage"}},
        "object": "chat.completion.chunk",
    }
    own = {"knowgate": extension}
    for choice in completion.get("choices") or ():
        if not isinstance(choice, dict):
            continue
        index = choice.get("index", 0)
        for delta in _deltas(choice.get("message")):
            part = {"index": index, "delta": delta, "finish_reason": None}
            yield event_of({**start, "choices": [part], **own})
            own = {}
        finish = {"index": index, "delta": {}, "finish_reason": choice.get("finish_reason")}
        yield event_of({**start, "choices": [finish]})
    if with_usage or own:
        usage = {"usage": completion.get("usage")} if with_usage else {}
        yield event_of({**start, "choices": [], **usage, **own})
    yield _DONE


def _deltas(message: Any) -> list[dict[str, Any]]:
    """What the events of a message tell, one after another."""
    known = fields_of(message)
    others = {key: value for key, value in known.items() if key not in {"role", "content"}}
    calls = others.get("tool_calls")
    if isinstance(calls, list):
        # In a stream each call says which one it is.
        others["tool_calls"] = [
            {"index": place, **call} if isinstance(call, dict) else call
            for place, call in enumerate(calls)
        ]
    text = text_of(known.get("content"))
    starts = [start for start, _ in sentence_spans(text)]
    cuts = [0, *starts[1:], len(text)]
    told = [{"content": text[a:b]} for a, b in pairwise(cuts) if b > a]
    return [{"role": "assistant", "content": "", **others}, *told]


def _told_by(event: bytes, texts: dict[int, str]) -> dict[str, Any]:
    """Add the text of an event's choices; returns what each chunk begins with."""
    chunk = _chunk_in(event) or {}
    choices = chunk.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        _add(choice, texts)
    # Infinity and NaN, as which a number may be read, are no JSON.
    start = {key: chunk.get(key) for key in ("id", "object", "created", "model")}
    return {key: value for key, value in start.items() if isinstance(value, str | int)}


def text_of(content: Any) -> str:
    """The text of a message's content, or of its text parts."""
    if isinstance(content, list):
        parts = (one.get("text") for one in content if isinstance(one, dict))
        return "\n".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _add(choice: Any, texts: dict[int, str]) -> None:
    known = fields_of(choice)
    text = fields_of(known.get("delta")).get("content")
    index = known.get("index", 0)
    if isinstance(text, str) and isinstance(index, int):
        before = texts.get(index, "")
        if len(before) + len(text) <= _MOST_CHARACTERS:
            texts[index] = before + text


def event_of(value: BaseModel | dict[str, Any]) -> bytes:
    """An event whose data is the value in JSON."""
    return b"data: " + as_json(value) + b"\n\n"


async def _events_in(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The events of a stream, each whole; what is no event of a chat passes all the same."""
    held = b""
    async for piece in pieces:
        # What was searched before is not searched again, but for an end that came in part.
        searched, held = max(0, len(held) - 3), held + piece
        start = 0
        for found in _END_OF_EVENT.finditer(held, searched):
            yield held[start : found.end()]
            start = found.end()
        held = held[start:]
        if len(held) > _MOST_HELD:
            yield held
            held = b""
    if held:
        yield held


async def marked(pieces: AsyncIterator[bytes], extension: dict[str, Any]) -> AsyncIterator[bytes]:
    """The events of a stream as they come, with the field `knowgate` in the first JSON object."""
    is_marked = False
    async for event in _events_in(pieces):
        own = None if is_marked else _with_field(event, extension)
        is_marked |= own is not None
        yield own or event


def _with_field(event: bytes, extension: dict[str, Any]) -> bytes | None:
    chunk = _chunk_in(event)
    with suppress(*NO_JSON):  # NaN, which is read and not written
        return None if chunk is None else event_of(chunk | {"knowgate": extension})
    return None


def _chunk_in(event: bytes) -> dict[str, Any] | None:
    """The JSON object in the data of an event."""
    lines = [line[5:] for line in event.splitlines() if line.startswith(b"data:")]
    return read_object(b"\n".join(lines))
