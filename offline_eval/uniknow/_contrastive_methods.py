"""Methods that decode against what the model says without the context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from ...guard import InputError, KnowgateError
from ..models import each_or_error
from ._cases import Reply, ScenarioCase
from ._datasets import PromptSet
from ._methods import reply_from


@runtime_checkable
class ContrastiveLanguageModel(Protocol):
    """A model that weighs its next token with and without the context."""

    def generate_contrastive(
        self,
        with_context: Sequence[str],
        without_context: Sequence[str],
        method: Literal["coiecd", "cad"] = "coiecd",
    ) -> list[str]:
        """One greedy answer per pair of prompts."""
        ...


class ContrastiveMethod:
    """Context-aware decoding, or contextual information-entropy constraint decoding.

    Args:
        name: `cad`, `coiecd`, or `coiecd_prompt` for the prompts that allow `unknown`.
        lm: a model with `generate_contrastive`.
        prompts: of the data set.

    Raises:
        InputError: the model cannot decode so.
    """

    def __init__(self, name: str, lm: object, prompts: PromptSet) -> None:
        if not isinstance(lm, ContrastiveLanguageModel):
            raise InputError(
                f"{why_not_contrastive(lm)}",
                where=name,
                mend="leave the method out, or run a local model (HuggingFaceLM)",
            )
        self._name, self._lm = name, lm
        self._decoding: Literal["coiecd", "cad"] = "cad" if name == "cad" else "coiecd"
        allowing = name == "coiecd_prompt"
        self._with = prompts.with_context_or_unknown if allowing else prompts.with_context
        self._without = prompts.closed_book_or_unknown if allowing else prompts.closed_book

    @property
    def name(self) -> str:
        """How rows and tables call it."""
        return self._name

    def answer(self, cases: Sequence[ScenarioCase]) -> list[Reply]:
        """One reply per case, in order."""

        def call(pairs: Sequence[tuple[str, str]]) -> list[str | KnowgateError]:
            found = self._lm.generate_contrastive(
                [pair[0] for pair in pairs], [pair[1] for pair in pairs], self._decoding
            )
            return list(found)

        found = each_or_error(call, [self._pair(case) for case in cases])
        return [reply_from(text, case) for text, case in zip(found, cases, strict=True)]

    def _pair(self, case: ScenarioCase) -> tuple[str, str]:
        question = case.question.question
        return (
            self._with.format(context=case.context.text, question=question),
            self._without.format(question=question),
        )


def why_not_contrastive(lm: object) -> str:
    """Why contrastive decoding cannot be done with `lm`; empty where it can."""
    if isinstance(lm, ContrastiveLanguageModel):
        return ""
    return (
        f"a {type(lm).__name__} does not show its next-token scores (it has no "
        "generate_contrastive)"
    )
