"""The requests of a sample: what was sent, and what came back for each."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...guard import clean_text


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Attributes:
        prompt: all of it, examples included; of a chat, the last message of the user.
        choice: the text that was rated; None for a generation.
        response: the first text that came back; None for a rating, and for requests that
            ask for no answer.
        log_likelihood: of the choice, None for a generation.
    """

    prompt: str
    choice: str | None
    response: str | None
    log_likelihood: float | None


def requests_of(arguments: Any, resps: Any) -> list[Request]:
    """The requests of a sample that are about its question.

    Choices that are rated without the question, for some metrics, are left out. Where
    prompts differ and the continuation does not, the prompts are the choices.

    Args:
        arguments: a list of argument lists, or objects `gen_args_<n>` of `arg_<n>`;
            anything else holds none.
        resps: one list of responses per request.
    """
    responses = resps if isinstance(resps, list) else []
    found = []
    for number, sent in enumerate(_argument_lists(arguments)):
        prompt = _prompt(sent[0]) if isinstance(sent, list) and sent else None
        if prompt is not None:
            response = responses[number] if number < len(responses) else None
            found.append(_request(prompt, sent[1] if len(sent) > 1 else None, response))
    if len(found) > 1 and len({one.choice for one in found}) == 1 and found[0].choice is not None:
        return [replace(one, choice=one.prompt) for one in found]
    return [one for one in found if one.prompt == found[0].prompt]


def _argument_lists(arguments: Any) -> list[Any]:
    if isinstance(arguments, list):
        return arguments
    if not isinstance(arguments, Mapping):
        return []
    # In the order of the file, which is that of the requests.
    return [list(one.values()) if isinstance(one, Mapping) else one for one in arguments.values()]


def _prompt(found: Any) -> str | None:
    if isinstance(found, list) and found:
        found = found[0]
    if not isinstance(found, str):
        return None
    if found.startswith("[{"):
        try:
            messages = json.loads(found)
        except (ValueError, RecursionError):
            return clean_text(found)
        for message in reversed(messages):
            content = message.get("content") if isinstance(message, dict) else None
            if isinstance(content, str) and message.get("role") == "user":
                return clean_text(content)
    return clean_text(found)


def _request(prompt: str, second: Any, response: Any) -> Request:
    # Repeats of one request: the first counts.
    first = response[0] if isinstance(response, list) and response else response
    if isinstance(second, str):
        return Request(prompt, clean_text(second), None, _number(first))
    asks = isinstance(second, Mapping) or _number([first]) is None
    text = clean_text(first) if asks and isinstance(first, str) else None
    return Request(prompt, None, text, None)


def _number(found: Any) -> float | None:
    """The first of `[log-likelihood, is greedy]`; some versions write numbers as text."""
    value = found[0] if isinstance(found, list) and found else None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(number) else number
