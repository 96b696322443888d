"""Methods: ways to answer a question that has a context before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol, runtime_checkable

from ....guard.abstention import load_rule
from ....guard.contracts import LanguageModel
from ....guard.errors import InputError, KnowgateError
from ...run import each_or_error, error_note, generate_each
from ._cases import Reply, ScenarioCase
from ._datasets import PromptSet
from ._knowledge import is_right

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


class RememberingMethod:
    """Another method, asked once per case; failures are not kept.

    Args:
        method: what answers.
    """

    def __init__(self, method: Method) -> None:
        self._method = method
        self._replies: dict[str, Reply] = {}

    @property
    def name(self) -> str:
        """That of the method itself."""
        return self._method.name

    def remember(self, replies: Iterable[tuple[str, Reply]]) -> None:
        """Take over replies by case id."""
        self._replies.update((name, reply) for name, reply in replies if reply.error is None)

    def answer(self, cases: Sequence[ScenarioCase]) -> list[Reply]:
        """One reply per case, in order."""
        new = [case for case in cases if case.case_id not in self._replies]
        fresh = {}
        if new:
            found = self._method.answer(new)
            fresh = {case.case_id: reply for case, reply in zip(new, found, strict=True)}
            self.remember(fresh.items())
        return [self._replies.get(case.case_id) or fresh[case.case_id] for case in cases]


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
                hint="leave the method out, or run a local model (HuggingFaceLM)",
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
