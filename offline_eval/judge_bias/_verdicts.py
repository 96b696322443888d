"""Asking a judge whether replies are right by their contexts."""

from __future__ import annotations

from collections.abc import Sequence

from ...guard import (
    KnowgateError,
    LanguageModel,
    ScoringLanguageModel,
)
from ..judges import NoVerdictError, parse_tag
from ..memory_conflict import PromptSet, parse_yes_no, yes_no_likelihoods
from ..models import each_or_error, generate_each
from ._cases import BiasCase

PROMPTS_PACKAGE = f"{__package__}.prompts"


class BiasJudge:
    """A language model in the part of a judge.

    Args:
        name: as the artefact calls it.
        lm: that is asked, greedily. One that scores options and has no chat template is not
            asked for a tag: yes or no is taken by likelihood.
        prompts: `judge_right` and `score_right`; the bundled ones by default.
    """

    def __init__(self, name: str, lm: LanguageModel, prompts: PromptSet | None = None) -> None:
        self.name, self.lm = name, lm
        self.prompts = prompts or PromptSet(package=PROMPTS_PACKAGE)
        self.scores = isinstance(lm, ScoringLanguageModel) and not getattr(
            lm, "uses_chat_template", False
        )

    def judge(self, cases: Sequence[BiasCase]) -> list[bool | KnowgateError]:
        """Whether each reply is right, in order; a failure costs one case."""
        prompt = self.prompts["score_right" if self.scores else "judge_right"]
        texts = [
            prompt.fill(context=case.context, question=case.question, reply=case.reply)
            for case in cases
        ]
        if self.scores:
            return each_or_error(self._score, texts)
        return [
            reply if isinstance(reply, KnowgateError) else _verdict(reply[0].text)
            for reply in generate_each(self.lm, texts)
        ]

    def _score(self, texts: Sequence[str]) -> list[bool | KnowgateError]:
        assert isinstance(self.lm, ScoringLanguageModel)
        return [yes > no for yes, no in yes_no_likelihoods(self.lm, texts)]


def _verdict(reply: str) -> bool | KnowgateError:
    tagged = parse_tag(reply, "right", ("yes", "no"))
    found = parse_yes_no(reply) if tagged is None else tagged.outcome == "yes"
    return NoVerdictError("right", calls=1) if found is None else found
