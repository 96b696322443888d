"""Methods: ways to answer a question that has a context before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ...guard import KnowgateError, LanguageModel
from ...guard.abstention import load_rule
from ..models import error_note, generate_each
from ._cases import Reply, ScenarioCase
from ._datasets import PromptSet
from ._exact_match import is_right

PROMPTED = ("naive", "prompting")
CONTRASTIVE = ("cad", "coiecd", "coiecd_prompt")
TRAINED = ("retrobust", "kaft", "lm_uniknow")
GUARDED = ("guard_naive", "guard_coiecd")
METHOD_NAMES = (*PROMPTED, *CONTRASTIVE, *TRAINED, *GUARDED)
# Known too, but not part of `all`: it goes beyond the paper's comparison.
OPTIONAL_METHODS = ("dpo",)

_RULE = load_rule("uniknow")


@runtime_checkable
class Method(Protocol):
    """A way to answer cases."""

    @property
    def name(self) -> str:
        """How rows and tables call it."""
        ...

    def answer(self, cases: Sequence[ScenarioCase]) -> list[Reply]:
        """One reply per case, in order; a case that failed has an error in its reply."""
        ...


class PromptedMethod:
    """The greedy reply to one prompt that holds context and question.

    Args:
        name: of the method.
        lm: what is asked.
        template: with `{context}` and `{question}`.
    """

    def __init__(self, name: str, lm: LanguageModel, template: str) -> None:
        self._name, self._lm, self._template = name, lm, template

    @property
    def name(self) -> str:
        """How rows and tables call it."""
        return self._name

    def answer(self, cases: Sequence[ScenarioCase]) -> list[Reply]:
        """One reply per case, in order."""
        prompts = [
            self._template.format(context=case.context.text, question=case.question.question)
            for case in cases
        ]
        rows = generate_each(self._lm, prompts)
        texts = [row if isinstance(row, KnowgateError) else row[0].text for row in rows]
        return [reply_from(text, case) for text, case in zip(texts, cases, strict=True)]


def prompted_method(name: str, lm: LanguageModel, prompts: PromptSet) -> PromptedMethod:
    """`naive`, with context and question, or `prompting`, which also allows `unknown`."""
    template = prompts.with_context if name == "naive" else prompts.with_context_or_unknown
    return PromptedMethod(name, lm, template)


def reply_from(found: str | KnowgateError, case: ScenarioCase) -> Reply:
    """A model's text, or its failure, as the reply to `case`.

    A text abstains where it holds one of the paper's abstention words, unless it is
    exactly the answer that is expected, or a gold one.
    """
    if isinstance(found, KnowgateError):
        return Reply("", abstained=False, error=error_note(found))
    text = found.strip()
    an_answer = is_right(text, case.expected) or is_right(text, case.question.answers)
    return Reply(text, abstained=not an_answer and _RULE.detect(text).abstained)
