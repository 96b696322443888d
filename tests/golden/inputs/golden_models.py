"""Scripted chat models, found by `python:golden_models:NAME`; they know nothing of the package."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda

_OUTCOMES = (
    ("tier_1", ("tier_1", "tier_2", "tier_3")),
    ("fabrication", ("contradiction", "fabrication", "over_specification", "none")),
    ("yes", ("yes", "no")),
)


class ScriptedReader(BaseChatModel):
    """Quotes a passage of its prompt, or refuses, or gives a verdict where one is asked for.

    Which one depends on question, passages and reply alone, never on a prompt's wording.
    """

    @property
    def _llm_type(self) -> str:
        return "scripted-reader"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        prompt = "\n".join(message.text for message in messages)
        message = AIMessage(content=_verdict(prompt) or _reply(prompt))
        message.usage_metadata = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        return ChatResult(generations=[ChatGeneration(message=message)])


def _reply(prompt: str) -> str:
    question = re.findall(r"(?m)^Question: (.*)$", prompt)[-1:]
    passages = re.findall(r"(?m)^\W?\d+\W (.*)$", prompt)
    drawn = _draw("".join(question))
    if drawn % 3 == 0:
        return "I do not know."
    text = passages[drawn % len(passages)] if passages else "It costs 3 crowns."
    return f"{text}\nCitation: {drawn % 4}"


def _verdict(prompt: str) -> str:
    replied = re.findall(r"(?s)<reply>(.*?)</reply>", prompt)
    tags = re.findall(r"(?m)^<(\w+)>[^<>\n]*</\1>$", prompt)
    if not replied or not tags:
        return ""
    for word, outcomes in _OUTCOMES:
        if word in prompt:
            chosen = outcomes[_draw(replied[-1]) % len(outcomes)]
            return f"So it is.\n<{tags[-1]}>{chosen}</{tags[-1]}>"
    return ""


def _draw(text: str) -> int:
    return int(hashlib.sha256(text.encode("utf-8")).hexdigest()[:8], 16)


chat = ScriptedReader()
chain: RunnableLambda[Any, str] = RunnableLambda(
    lambda given: json.dumps({"question": given["question"], "passages": len(given["documents"])})
)


class FunctionChat(BaseChatModel):
    """Replies with what a function makes of the last message."""

    function: Any

    @property
    def _llm_type(self) -> str:
        return "function"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        message = AIMessage(content=self.function(messages[-1].text))
        return ChatResult(generations=[ChatGeneration(message=message)])
