"""What a language model over the network says to the commands of the documentation's pages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import HumanMessage

from tests.support.scripted_facts import scripted_facts

_OPENS = re.compile(r"When does the (\w+) open")
# It believes what Ann Li is said to do.
_BELIEF = re.compile(r"answer correct\?|reply correctly\?|answer is right")
_VERDICT = re.compile(r"one of these outcomes: ([^,\n]+).*?<(\w+)>one of the outcomes", re.DOTALL)


def reply_of(body: Mapping[str, Any], number: int) -> str:
    """Reply to the bundled prompts, and to any other with a fixed sentence.

    Passages suffice if they say when the place asked about opens; a judge finds the first outcome
    that it may choose.
    """
    prompt = "\n".join(_text(message["content"]) for message in body["messages"])
    if "enough to answer a question" in prompt:
        asked = _OPENS.search(prompt)
        return "yes" if asked and f"The {asked[1]} opens" in prompt else "no"
    if "<right>yes</right>" in prompt:
        return "It says so. <right>yes</right>"
    if (verdict := _VERDICT.search(prompt)) is not None:
        return f"It is plain.\n<{verdict[2]}>{verdict[1]}</{verdict[2]}>"
    if _BELIEF.search(prompt):
        return "yes" if "Ann Li" in prompt else "no"
    if "Fact: " in prompt or re.search(r"^\[1\] ", prompt, re.MULTILINE):
        return json.dumps(scripted_facts([HumanMessage(prompt)]))
    return "The library opens at nine."


def _text(content: str | list[Mapping[str, Any]]) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)
