"""Chat models that answer by a function of what they are asked: offline, seeded, fallible."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr

Script = Callable[[Sequence[BaseMessage]], str | Mapping[str, Any]]


class ScriptedError(ConnectionError):
    """The provider is scripted not to answer this time."""


class ScriptedTextChat(BaseChatModel):
    """A chat model whose replies are a function of the messages; text only.

    Attributes:
        script: from the messages to the reply; a mapping is written as JSON.
        failure_rate: share of calls that raise `ScriptedError`. Which ones depends on
            seed, messages and how often they were sent before, never on timing.
        seed: of the failures.
    """

    script: Script
    failure_rate: float = Field(default=0.0, ge=0, le=1)
    seed: int = 0
    _sent: Counter[str] = PrivateAttr(default_factory=Counter)
    _failed: int = PrivateAttr(default=0)
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    @property
    def calls(self) -> int:
        """Calls so far, failed ones included."""
        return self._sent.total()

    @property
    def failed_calls(self) -> int:
        """Calls so far that were scripted to fail."""
        return self._failed

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._answered(messages, kwargs.get("tools"))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._answered(messages, kwargs.get("tools"))

    def _answered(self, messages: list[BaseMessage], tools: Any) -> ChatResult:
        prompt = "\n".join(message.text for message in messages)
        if self._fails(prompt):
            raise ScriptedError("scripted")
        answer = self.script(messages)
        text = answer if isinstance(answer, str) else json.dumps(dict(answer), ensure_ascii=False)
        message = AIMessage(content=text)
        if tools and not isinstance(answer, str):
            name = tools[0]["function"]["name"]
            message = AIMessage(
                content="", tool_calls=[{"name": name, "args": dict(answer), "id": "call-1"}]
            )
        # Words, in place of tokens.
        read, written = len(prompt.split()), len(text.split())
        message.usage_metadata = {
            "input_tokens": read,
            "output_tokens": written,
            "total_tokens": read + written,
        }
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _fails(self, prompt: str) -> bool:
        key = hashlib.sha256(prompt.encode("utf-8", "replace")).hexdigest()
        with self._lock:
            self._sent[key] += 1
            draw = Random(f"{self.seed}/{key}/{self._sent[key]}").random()
            failed = draw < self.failure_rate
            self._failed += failed
        return failed


class ScriptedChat(ScriptedTextChat):
    """The same with structured output: a mapping comes back as a call of the tool asked for.

    A script that returns text answers in text, as models do that ignore the tool.
    """

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """This model, told of `tools`."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools])
