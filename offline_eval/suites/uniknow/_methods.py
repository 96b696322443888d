"""Methods: ways to answer a question with a context."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol, runtime_checkable

from ....guard.abstention import load_rule
from ....guard.contracts import LanguageModel
from ....guard.errors import KnowgateError
from ...run import (
    RowError,
    each_or_error,
    generate_each,
)
from ._cases import Reply, ScenarioCase
from ._datasets import PromptSet
from ._matching import is_right

_RULE = load_rule("uniknow")


@runtime_checkable
class Method(Protocol):
    """A way to answer cases."""

    @property
    def name(self) -> str:
        """Name in rows and tables."""
        ...

    def answer(self, cases: Sequence[ScenarioCase]) -> list[Reply]:
        """Return one reply per case, in order; a case that failed has an error in its reply."""
        ...


class PromptedMethod:
    """Reply greedily to one prompt with context and question.

    Args:
        name: of the method.
        lm: what is asked.
        template: with `{context}` and `{question}`.
    """

    def __init__(self, name: str, lm: LanguageModel, template: str) -> None:
        self.name, self._lm, self._template = name, lm, template

    def answer(self, cases: Sequence[ScenarioCase]) -> list[Reply]:
        """Return one reply per case, in order."""
        rows = generate_each(self._lm, [case.fill(self._template) for case in cases])
        texts = [row if isinstance(row, KnowgateError) else row[0].text for row in rows]
        return [reply_from(text, case) for text, case in zip(texts, cases, strict=True)]


def prompted_method(name: str, lm: LanguageModel, prompts: PromptSet) -> PromptedMethod:
    """Make `naive`, with context and question, or `prompting`, which also allows `unknown`."""
    template = prompts.with_context if name == "naive" else prompts.with_context_or_unknown
    return PromptedMethod(name, lm, template)


def reply_from(found: str | KnowgateError, case: ScenarioCase) -> Reply:
    """Turn a model's text, or its failure, into the reply to a case.

    A text abstains if it holds one of the paper's abstention words, unless it is exactly
    an expected answer or a gold one.
    """
    if isinstance(found, KnowgateError):
        return Reply("", abstained=False, error=str(RowError.of(found)))
    text = found.strip()
    an_answer = is_right(text, case.expected) or is_right(text, case.question.answers)
    return Reply(text, abstained=not an_answer and _RULE.detect(text).abstained)


@runtime_checkable
class ContrastiveLanguageModel(Protocol):
    """A model that compares its next token with and without the context."""

    def generate_contrastive(
        self,
        with_context: Sequence[str],
        without_context: Sequence[str],
        method: Literal["coiecd", "cad"] = "coiecd",
    ) -> list[str]:
        """Return one greedy answer per pair of prompts."""
        ...


class ContrastiveMethod:
    """Context-aware decoding, or contextual information-entropy constraint decoding.

    Args:
        name: `cad`, `coiecd`, or `coiecd_prompt` for the prompts that allow `unknown`.
        lm: what is asked.
        prompts: of the data set.
    """

    def __init__(self, name: str, lm: ContrastiveLanguageModel, prompts: PromptSet) -> None:
        self.name, self._lm = name, lm
        self._decoding: Literal["coiecd", "cad"] = "cad" if name == "cad" else "coiecd"
        allowing = name == "coiecd_prompt"
        self._with = prompts.with_context_or_unknown if allowing else prompts.with_context
        self._without = prompts.closed_book_or_unknown if allowing else prompts.closed_book

    def answer(self, cases: Sequence[ScenarioCase]) -> list[Reply]:
        """Return one reply per case, in order."""

        def call(some: Sequence[ScenarioCase]) -> list[str | KnowgateError]:
            found = self._lm.generate_contrastive(
                [case.fill(self._with) for case in some],
                [case.fill(self._without) for case in some],
                self._decoding,
            )
            return list(found)

        found = each_or_error(call, cases)
        return [reply_from(text, case) for text, case in zip(found, cases, strict=True)]


def why_not_contrastive(lm: object) -> str:
    """Return why contrastive decoding cannot be done with `lm`; empty if it can."""
    if isinstance(lm, ContrastiveLanguageModel):
        return ""
    return (
        f"a {type(lm).__name__} does not show its next-token scores (it has no "
        "generate_contrastive)"
    )


class RememberingMethod:
    """Ask another method once per case; failures are not kept.

    Args:
        method: what answers.
    """

    def __init__(self, method: Method) -> None:
        self.name, self._method = method.name, method
        self._replies: dict[str, Reply] = {}

    def remember(self, replies: Iterable[tuple[str, Reply]]) -> None:
        """Add replies by case id."""
        self._replies.update((name, reply) for name, reply in replies if reply.error is None)

    def answer(self, cases: Sequence[ScenarioCase]) -> list[Reply]:
        """Return one reply per case, in order."""
        new = [case for case in cases if case.case_id not in self._replies]
        fresh = {}
        if new:
            found = self._method.answer(new)
            fresh = {case.case_id: reply for case, reply in zip(new, found, strict=True)}
            self.remember(fresh.items())
        return [self._replies.get(case.case_id) or fresh[case.case_id] for case in cases]
