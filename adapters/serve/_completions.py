"""Chat completions by a local language model: whole, or token by token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...guard.errors import InputError, KnowgateError, LanguageModelError, PromptTooLongError
from ._errors import ServeError
from ._openai import (
    AssistantMessage,
    ChatCompletion,
    ChatCompletionChunk,
    Choice,
    ChunkChoice,
    Delta,
    Logprobs,
    SamplingRequest,
    TokenLogprob,
    TopLogprob,
    Usage,
    new_id,
    now,
)

if TYPE_CHECKING:
    from ..huggingface import HuggingFaceLM

# Options that would change the reply and are not understood; rejected where they are set.
_UNKNOWN_OPTIONS = (
    "frequency_penalty", "function_call", "functions", "logit_bias", "presence_penalty",
    "response_format", "tool_choice", "tools", "top_k",
)  # fmt: skip
# Values that ask for nothing.
_DEFAULTS: tuple[object, ...] = (None, 0, [], {}, "none", {"type": "text"})
_MOST_STOPS = 16


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request as the model takes it.

    Attributes:
        prompt: the messages, rendered.
        settings: of the engine.
        logprobs: whether log-probabilities are sent.
        top: alternatives at each token.
    """

    prompt: Any
    settings: Any
    logprobs: bool
    top: int


class Completions:
    """Answers requests with a language model.

    Args:
        lm: the model.
        name: what requests call it.
    """

    def __init__(self, lm: HuggingFaceLM, name: str) -> None:
        self._lm, self.name = lm, name

    def read(self, request: SamplingRequest) -> _Asked:
        """The request as the model takes it.

        Raises:
            ServeError: it asks for another model, or for what this one cannot do.
        """
        if request.model != self.name:
            message = f"There is no such model; the only one is {self.name}."
            raise ServeError(404, "model_not_found", message, param="model")
        for option in _UNKNOWN_OPTIONS:
            if (request.model_extra or {}).get(option) not in _DEFAULTS:
                raise _unsupported(option)
        if request.top_p not in (None, 1):
            raise _unsupported("top_p")
        if request.top_logprobs and not request.logprobs:
            raise _invalid("It needs logprobs.", "top_logprobs")
        stop = [request.stop] if isinstance(request.stop, str) else request.stop
        if stop is not None and not (all(stop) and len(stop) <= _MOST_STOPS):
            raise _invalid(f"It is empty text, or there are over {_MOST_STOPS}.", "stop")
        turns = [{"role": one.role, "content": one.text} for one in request.messages]
        try:
            prompt = self._lm.engine.encoder.render_messages(turns)
            settings = self._lm.settings(
                n=request.n or 1,
                temperature=1.0 if request.temperature is None else request.temperature,
                seed=request.seed,
                stop=stop,
                max_new_tokens=request.max_completion_tokens or request.max_tokens,
            )
            self._lm.engine.encoder.encode([prompt])
        except (InputError, LanguageModelError) as error:
            raise _rejected(error) from None
        return _Asked(prompt, settings, bool(request.logprobs), request.top_logprobs or 0)

    async def complete(self, asked: _Asked) -> ChatCompletion:
        """A whole reply with all its choices."""
        [answers] = await self._lm.engine.acomplete([asked.prompt], asked.settings)
        choices = [
            Choice(
                index=index,
                message=AssistantMessage(content=self._lm.engine.text(answer, asked.settings.stop)),
                logprobs=self._logprobs(asked, answer, 0),
                finish_reason=answer.finish or "stop",
            )
            for index, answer in enumerate(answers)
        ]
        usage = self._usage(asked, [len(answer.ids) for answer in answers])
        return ChatCompletion(model=self.name, choices=choices, usage=usage)

    def chunks(
        self, asked: _Asked, *, include_usage: bool = False
    ) -> Iterator[ChatCompletionChunk]:
        """One reply token by token; several one after the other."""
        shared: dict[str, Any] = {"id": new_id(), "created": now(), "model": self.name}
        lengths = []
        for index, settings in enumerate(_one_by_one(asked.settings)):
            first = ChunkChoice(index=index, delta=Delta(role="assistant", content=""))
            yield ChatCompletionChunk(choices=[first], **shared)
            sent = length = 0
            for text, answer in self._lm.engine.stream(asked.prompt, settings):
                length = len(answer.ids)
                if text:
                    found = self._logprobs(asked, answer, sent)
                    choice = ChunkChoice(index=index, delta=Delta(content=text), logprobs=found)
                    yield ChatCompletionChunk(choices=[choice], **shared)
                    sent = length
                if answer.finish:
                    found = self._logprobs(asked, answer, sent) if sent < length else None
                    last = ChunkChoice(index=index, logprobs=found, finish_reason=answer.finish)
                    yield ChatCompletionChunk(choices=[last], **shared)
            lengths.append(length)
        if include_usage:
            usage = self._usage(asked, lengths)
            yield ChatCompletionChunk(choices=[], usage=usage, **shared)

    def _usage(self, asked: _Asked, lengths: Sequence[int]) -> Usage:
        [ids] = self._lm.engine.encoder.encode([asked.prompt])
        said = sum(lengths)
        return Usage(prompt_tokens=len(ids), completion_tokens=said, total_tokens=len(ids) + said)

    def _logprobs(self, asked: _Asked, answer: Any, sent: int) -> Logprobs | None:
        """Log-probabilities of the tokens after the first `sent` ones."""
        if not asked.logprobs:
            return None
        engine = self._lm.engine
        others: list[list[tuple[int, float]]] = [[] for _ in answer.ids]
        if asked.top and answer.ids:
            others = engine.likeliest(asked.prompt, answer, asked.top)
        content = []
        for token, logprob, top in list(zip(answer.ids, answer.logprobs, others, strict=True))[
            sent:
        ]:
            text = engine.encoder.text_of([token])
            content.append(
                TokenLogprob(
                    token=text,
                    logprob=logprob,
                    bytes=list(text.encode()),
                    top_logprobs=[self._top(*one) for one in top],
                )
            )
        return Logprobs(content=content)

    def _top(self, token: int, logprob: float) -> TopLogprob:
        text = self._lm.engine.encoder.text_of([token])
        return TopLogprob(token=text, logprob=logprob, bytes=list(text.encode()))


def _one_by_one(settings: Any) -> Iterator[Any]:
    """Settings of each of `n` samples; sample k has the seed plus k, as when drawn together."""
    for number in range(settings.n):
        seed = None if settings.seed is None else settings.seed + number
        yield replace(settings, n=1, seed=seed)


def _invalid(message: str, param: str) -> ServeError:
    return ServeError(400, "invalid_value", message, param=param)


def _unsupported(option: str) -> ServeError:
    message = "This server does not support the option."
    return ServeError(400, "unsupported_parameter", message, param=option)


def _rejected(error: KnowgateError) -> ServeError:
    if isinstance(error, PromptTooLongError):
        message = "The messages leave no room for a reply in the context window."
        return ServeError(400, "context_length_exceeded", message, param="messages")
    if isinstance(error, LanguageModelError):
        message = "The model cannot read the messages."
        return ServeError(400, "invalid_value", message, param="messages")
    return ServeError(400, "invalid_value", "An option is out of its range.")
