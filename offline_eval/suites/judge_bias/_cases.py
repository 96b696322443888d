"""Cases whose right verdict is known by construction, with and against a judge's belief."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....guard.contracts import LanguageModel, ScoringLanguageModel
from ....guard.errors import KnowgateError
from ...judging import Criterion, NoVerdictError, YesNo
from ...run import each_or_error, generate_each
from .._prompts import PromptSet
from ..conflict import Believed


@dataclass(frozen=True, slots=True)
class BiasCase:
    """A question, a context, and a reply that follows the context or does not.

    Attributes:
        case_id: unique.
        number: in the order of the cases.
        key: of the question.
        question: that was asked.
        context: by which the reply is to be judged.
        reply: that is judged.
        label: whether it is right by the context.
        believed: whether it is what the judge believes.
    """

    case_id: str
    number: int
    key: str
    question: str
    context: str
    reply: str
    label: bool
    believed: bool

    @property
    def conflicting(self) -> bool:
        """Whether a judge that goes by its belief judges wrongly."""
        return self.label != self.believed


def bias_cases(believed: Sequence[Believed]) -> list[BiasCase]:
    """Make four cases per question: two contexts, each with both answers as the reply.

    Over the context that contradicts the judge's belief, the reply that follows it is
    contextually right and, to the judge, factually wrong; the other one is the opposite. Over
    the context that agrees, belief and label are one: the controls. Questions without a passage
    for either answer are left out.
    """
    found: list[BiasCase] = []
    for one in believed:
        sides = (("own", one.own), ("rival", one.rival))
        if not all(answer.passages for _, answer in sides):
            continue
        for context, source in sides:
            for reply, answer in sides:
                found.append(
                    BiasCase(
                        case_id=f"{one.item.key}/{context}_context/{reply}_reply",
                        number=len(found),
                        key=one.item.key,
                        question=one.item.question,
                        context=source.passages[0],
                        reply=answer.text,
                        label=context == reply,
                        believed=reply == "own",
                    )
                )
    return found


PROMPTS_PACKAGE = f"{__package__}.prompts"


class BiasJudge:
    """A language model as a judge.

    Args:
        name: as the artefact calls it.
        lm: that is asked, greedily. One that scores options and has no chat template is not
            asked for a tag: yes or no is taken by likelihood.
        prompts: `judge_right` and `score_right`; the bundled ones by default.
    """

    def __init__(self, name: str, lm: LanguageModel, prompts: PromptSet | None = None) -> None:
        self.name, self.lm = name, lm
        self.prompts = prompts or PromptSet(PROMPTS_PACKAGE)
        self.scores = isinstance(lm, ScoringLanguageModel) and not getattr(
            lm, "uses_chat_template", False
        )

    @property
    def fingerprint(self) -> str:
        """Of the model."""
        return self.lm.fingerprint

    def judge(self, cases: Sequence[BiasCase]) -> list[bool | KnowgateError]:
        """Judge whether each reply is right, in order; a failure costs one case."""
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
        return [yes > no for yes, no in YesNo.likelihoods(self.lm, texts)]


def _verdict(reply: str) -> bool | KnowgateError:
    tagged = Criterion.parse_tag(reply, "right", ("yes", "no"))
    found = YesNo.parse(reply) if tagged is None else tagged.outcome == "yes"
    return NoVerdictError("right", calls=1) if found is None else found
