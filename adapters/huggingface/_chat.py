"""A LangChain chat model over `HuggingFaceLM`, so that one LM serves guard and chain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import ConfigDict, Field

from ...guard.deadlines import call_on_thread
from ...guard.engine.prompt_encoder import check_text
from ...guard.errors import InputError
from ._engine import Answer, Settings
from ._lm import HuggingFaceLM

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_CALL_OPTIONS = frozenset({"temperature", "seed", "max_new_tokens", "max_tokens", "logprobs"})
# Options that LangChain itself adds to a call.
_LANGCHAIN_OPTIONS = frozenset({"stream", "ls_structured_output_format"})


class HuggingFaceChatModel(BaseChatModel):
    """Answers messages with a `HuggingFaceLM`: sync, async and token by token.

    Messages go through the model's chat template where the LM uses one; otherwise
    their contents are joined by a blank line into one prompt.

    Attributes:
        lm: the language model; it may serve a guard at the same time.
        temperature: 0 for greedy.
        seed: None draws afresh.
        max_new_tokens: in place of the LM's own.
        stop: stop strings in place of the LM's own.
        logprobs: whether `response_metadata["logprobs"]` lists every token.

    `temperature`, `seed`, `max_new_tokens` (also as `max_tokens`), `logprobs` and
    `stop` may be given per call, or bound with `bind`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    lm: HuggingFaceLM = Field(exclude=True)
    temperature: float = 0.0
    seed: int | None = None
    max_new_tokens: int | None = None
    stop: list[str] | None = None
    logprobs: bool = False

    @property
    def fingerprint(self) -> str:
        """That of the language model: its weights and settings, wherever its files lie."""
        return self.lm.fingerprint

    @property
    def _llm_type(self) -> str:
        return "knowgate-huggingface"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {
            "model_name": self.lm.name,
            "dtype": self.lm.dtype,
            "temperature": self.temperature,
            "seed": self.seed,
            "max_new_tokens": self.max_new_tokens or self.lm.max_new_tokens,
            "stop": list(self.lm.stop) if self.stop is None else self.stop,
            "logprobs": self.logprobs,
        }

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        own = LangSmithParams(ls_provider="huggingface", ls_model_name=self.lm.name)
        return {**super()._get_ls_params(stop=stop, **kwargs), **own}

    def get_token_ids(self, text: str) -> list[int]:
        """Token ids of bare text by the model's own tokenizer."""
        return self.lm.token_ids(text)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        prompt, settings, logprobs = self._call(messages, stop, kwargs)
        [[answer]] = self.lm.engine.complete([prompt], settings)
        text = self.lm.engine.text(answer, settings.stop)
        message = AIMessage(text, **self._told(prompt, answer, logprobs))
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return await call_on_thread(lambda: self._generate(messages, stop, **kwargs))

    # The base class makes `_astream` of this: each token in a thread, off the event loop.
    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        prompt, settings, logprobs = self._call(messages, stop, kwargs)
        for piece, answer in self.lm.engine.stream(prompt, settings):
            if answer.finish is None:
                if piece:
                    yield ChatGenerationChunk(message=AIMessageChunk(content=piece))
                continue
            told = self._told(prompt, answer, logprobs)
            message = AIMessageChunk(content=piece, **told, chunk_position="last")
            yield ChatGenerationChunk(message=message)

    def _call(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, options: dict[str, Any]
    ) -> tuple[str, Settings, bool]:
        """The prompt, the settings and whether token log-probabilities are wanted."""
        if unknown := sorted(set(options) - _CALL_OPTIONS - _LANGCHAIN_OPTIONS):
            what = f"does not know {', '.join(unknown)}"
            hint = f"use {', '.join(sorted(_CALL_OPTIONS))} or stop"
            raise InputError(what, where=type(self).__name__, hint=hint)
        length = options.get("max_new_tokens", options.get("max_tokens", self.max_new_tokens))
        settings = self.lm.settings(
            temperature=options.get("temperature", self.temperature),
            seed=options.get("seed", self.seed),
            stop=self.stop if stop is None else stop,
            max_new_tokens=length,
        )
        turns = [
            {"role": _ROLES.get(message.type, message.type), "content": _text(message)}
            for message in messages
        ]
        prompt = self.lm.engine.encoder.render_messages(turns)
        return prompt, settings, bool(options.get("logprobs", self.logprobs))

    def _told(self, prompt: str, answer: Answer, logprobs: bool) -> dict[str, Any]:
        """Tokens, name of the model and how the answer ended, as fields of a message."""
        [ids] = self.lm.engine.encoder.encode([prompt])
        read, written = len(ids), len(answer.ids)
        usage = UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
        metadata: dict[str, Any] = {"model_name": self.lm.name, "finish_reason": answer.finish}
        if logprobs:
            metadata["logprobs"] = {
                "content": [
                    {"token": self.lm.engine.encoder.text_of([token]), "logprob": logprob}
                    for token, logprob in zip(answer.ids, answer.logprobs, strict=True)
                ]
            }
        return {"usage_metadata": usage, "response_metadata": metadata}


def _text(message: BaseMessage) -> str:
    """A message's text.

    Raises:
        InputError: it holds something else, which a text model would ignore.
        LanguageModelError: it is not valid text.
    """
    blocks = [] if isinstance(message.content, str) else message.content
    if any(isinstance(block, dict) and block.get("type") != "text" for block in blocks):
        raise InputError("holds more than text", where="messages", hint="leave the rest out")
    text = str(message.text)
    check_text(text, "a message")
    return text
