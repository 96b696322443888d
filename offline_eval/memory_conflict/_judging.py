"""Language models as judges of passages and of free answers; a failure costs one verdict."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, Protocol

from ...guard import KnowgateError, LanguageModel
from ..judges import NoVerdictError, parse_tag
from ..models import generate_each
from ..multiple_choice import LETTERS
from ..ookb import RowError
from ._prompts import PromptSet
from ._rows import Check

_OUTCOMES = {"yields": ("yes", "no"), "plausibility": ("1", "2", "3", "4", "5")}
_GIVEN = re.compile(r"<\s{0,8}given\s{0,8}>([^<]{0,80})", re.IGNORECASE)
Criterion = Literal["yields", "plausibility"]


class Claim(Protocol):
    """A passage that claims an answer to a question."""

    @property
    def question(self) -> str:
        """That is asked."""
        ...

    @property
    def answer(self) -> str:
        """That is claimed."""
        ...

    @property
    def passage(self) -> str:
        """That claims it."""
        ...


class PassageJudge:
    """A language model that judges passages.

    Args:
        name: as checks call it.
        lm: that is asked, greedily.
        prompts: `judge_yields`, `judge_plausibility` and `judge_answers`.
    """

    def __init__(self, name: str, lm: LanguageModel, prompts: PromptSet) -> None:
        self.name, self._lm, self._prompts = name, lm, prompts

    def check(self, criterion: Criterion, claims: Sequence[Claim]) -> list[Check]:
        """A verdict per claim, in order."""
        prompt = self._prompts[f"judge_{criterion}"]
        replies = generate_each(
            self._lm,
            [
                prompt.fill(question=claim.question, answer=claim.answer, passage=claim.passage)
                for claim in claims
            ],
        )
        return [
            self._verdict(criterion, r if isinstance(r, KnowgateError) else r[0].text)
            for r in replies
        ]

    def answers(
        self, asked: Sequence[tuple[str, str, str]]
    ) -> list[tuple[str, ...] | KnowgateError]:
        """Which options each free reply gives.

        Args:
            asked: question, lettered options one a line, reply.
        """
        prompt = self._prompts["judge_answers"]
        replies = generate_each(
            self._lm,
            [prompt.fill(question=q, options=options, reply=reply) for q, options, reply in asked],
        )
        return [r if isinstance(r, KnowgateError) else _letters(r[0].text) for r in replies]

    def _verdict(self, criterion: Criterion, reply: str | KnowgateError) -> Check:
        if isinstance(reply, KnowgateError):
            return Check(judge=self.name, criterion=criterion, error=_note(reply))
        found = parse_tag(reply, criterion, _OUTCOMES[criterion])
        if found is None:
            return Check(
                judge=self.name,
                criterion=criterion,
                error=_note(NoVerdictError(criterion, calls=1)),
            )
        return Check(
            judge=self.name, criterion=criterion, outcome=found.outcome, reasoning=found.reasoning
        )


def _letters(reply: str) -> tuple[str, ...] | KnowgateError:
    for content in reversed(_GIVEN.findall(reply)):
        if content.strip(" .*`\"'").casefold() in ("none", "no", "neither"):
            return ()
        found = re.findall(r"\b[A-D]\b", content.upper())
        if found:
            return tuple(letter for letter in LETTERS if letter in found)
    return NoVerdictError("given", calls=1)


def _note(error: KnowgateError) -> RowError:
    return RowError(type=type(error).__name__, detail=str(error))
