"""One question to a language model of either kind, with what it cost."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, TypeAlias

from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable

from ...adapters.langchain import answer_text
from ...guard import InputError, LanguageModel, clean_text
from ...guard.prompts import Prompt

# A chat model (or any runnable from text to a message or text), or the guard's own kind.
TextModel: TypeAlias = Runnable[Any, Any] | LanguageModel


@dataclass(frozen=True, slots=True)
class Said:
    """What a model said to one prompt.

    Attributes:
        text: as clean text.
        input_tokens: of the call, None where not metered.
        output_tokens: likewise.
    """

    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None


async def ask(model: TextModel, prompt: str) -> Said:
    """One call; its deadline and further tries are the caller's, its errors the model's own."""
    if isinstance(model, Runnable):
        output = await model.ainvoke(prompt)
        usage = output.usage_metadata if isinstance(output, AIMessage) else None
        counts: Mapping[str, Any] = usage if isinstance(usage, Mapping) else {}
        return Said(
            clean_text(answer_text(output)),
            _count(counts.get("input_tokens")),
            _count(counts.get("output_tokens")),
        )
    rows = await model.agenerate([prompt])
    return Said(clean_text(rows[0][0].text))


def require_model(model: object, *, where: str, why: str) -> TextModel:
    """`model` itself.

    Raises:
        InputError: there is none, or it is of neither kind.
    """
    if model is None:
        raise InputError(
            f"{why} needs a language model, and there is no way to do without",
            where=where,
            mend="name a chat model, e.g. `provider:model` or `embedded`",
        )
    if not isinstance(model, Runnable | LanguageModel):
        raise InputError(
            f"is a {type(model).__name__}, no language model",
            where=where,
            mend="give a chat model of LangChain, a runnable, or a knowgate LanguageModel",
        )
    return model


def total(counts: Sequence[int | None]) -> int | None:
    """Their sum, None where one is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def tagged(text: str, tag: str) -> list[str]:
    """What stands between each `<tag>` and `</tag>`, in order, without what is empty.

    Example:
        >>> tagged("<a> one </a> and <A>two</A><a></a>", "a")
        ['one', 'two']
    """
    found = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.IGNORECASE | re.DOTALL)
    return [" ".join(one.split()) for one in found if one.strip()]


def prompt_of_package(name: str) -> Prompt:
    """A prompt that ships with this package."""
    file = resources.files(__package__).joinpath("prompts", f"{name}.txt")
    return Prompt(name=name, text=file.read_text(encoding="utf-8").rstrip("\n"))


def _count(value: object) -> int | None:
    return value if isinstance(value, int) else None
