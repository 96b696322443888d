"""Several scorers in one: a logistic mix of their values, fitted on the user's own questions.

The rule itself is `MixRule`; `knowgate calibrate --mix` fits it, and writes it into the policy.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...contracts import RelevanceScorer, SetScore
from ...errors import InputError
from ...fingerprint import MIX, Fingerprint
from ...mix_rule import MixRule
from ._stage import MadeOfScorers, Stage

MOST_PARTS = 5


class MixScorer(MadeOfScorers):
    """Log-odds that passages suffice, by a logistic mix of two to five scorers.

    Each counts by its value for all passages (by its best passage, where it judges them one by
    one) and by its margin: how far the best passage stands out from the mean of the others. The
    score of a passage alone is the first scorer's.

    One that fails makes the whole mix fail: nothing is guessed.

    Args:
        parts: two to five different scorers, none of them a mix.
        rule: of the policy; None where it is not known yet: such a mix measures nothing.

    Raises:
        InputError: fewer or more scorers, the same one twice, or a mix.

    Example:
        >>> from knowgate.guard.testing import FakeScorer
        >>> parts = FakeScorer({"nine": 0.9}), FakeScorer({"late": 0.8}, default=0.2)
        >>> rule = MixRule(intercept=0.0, weights=((1.0, 0.0), (2.0, 1.0)))
        >>> mix = MixScorer(parts, rule)
        >>> round(mix.score_set("When?", ["at nine", "late"]).joint, 6)
        3.1
    """

    def __init__(self, parts: Sequence[RelevanceScorer], rule: MixRule | None = None) -> None:
        if not 2 <= len(parts) <= MOST_PARTS:
            hint = f"name two to {MOST_PARTS}, e.g. mix:sufficiency+ms-marco"
            raise InputError(f"{len(parts)} scorers are mixed", where=f"{MIX}:", hint=hint)
        if any(isinstance(one, MixScorer) for one in parts):
            raise InputError("is in a mix itself", where=f"{MIX}:", hint="name all scorers in one")
        self._parts, self._rule = tuple(Stage.of(one) for one in parts), rule

    @staticmethod
    def names(rest: str) -> tuple[str, ...]:
        """The names between plus signs.

        Raises:
            InputError: there are fewer than two or more than five, or one is empty or stands twice.
        """
        names = tuple(rest.split("+"))
        if not 2 <= len(names) <= MOST_PARTS or "" in names or len({*names}) < len(names):
            raise InputError(
                f"is no mix of two to {MOST_PARTS} different scorers",
                where=f"{MIX}:{rest}",
                hint="e.g. mix:sufficiency+metadata:relevance_score+ms-marco",
            )
        return names

    def weighted_as(self, wanted: Fingerprint) -> MixScorer:
        """Return the mix with the weights of a policy, where it has none itself."""
        if self._rule is not None or wanted.kind != MIX:
            return self
        return MixScorer(self.scorers, MixRule.of(wanted))

    @property
    def scorers(self) -> tuple[RelevanceScorer, ...]:
        """Those that are mixed."""
        return tuple(one.scorer for one in self._parts)

    parts = scorers

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this mix is bound to: all scorers and all weights."""
        parts = tuple(one.fingerprint for one in self.scorers)
        if self._rule is None:
            return Fingerprint(kind=MIX, parts=parts)
        return self._rule.fingerprint(parts)

    @property
    def checks_deadline(self) -> bool:
        """Whether all its scorers do."""
        return all(
            "checks_deadline" in vars(type(one)) and bool(getattr(one, "checks_deadline", False))
            for one in self.scorers
        )

    def supports(self, question: str) -> bool:
        """Whether all its scorers know the question's language."""
        asked = [getattr(one, "supports", None) for one in self.scorers]
        return all(bool(supports(question)) for supports in asked if supports is not None)

    def reads_whole(self, passage: str) -> bool:
        """Whether all its scorers read a passage to its end."""
        asked = [getattr(one, "reads_whole", None) for one in self.scorers]
        return all(bool(reads(passage)) for reads in asked if reads is not None)

    def score_sets(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        """`score_set` for each question with its passages, equal to it.

        Raises:
            InputError: the mix has no weights yet.
        """
        rule = self._known_rule()
        return _mixed(rule, [part.measure(questions, passages) for part in self._parts])

    async def ascore_sets(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        """As `score_sets`, without blocking the event loop."""
        rule = self._known_rule()
        return _mixed(rule, [await part.ameasure(questions, passages) for part in self._parts])

    def _known_rule(self) -> MixRule:
        if self._rule is None:
            raise InputError(
                "the mix has no weights yet",
                where=f"{MIX}:",
                hint="measure its scorers, then `knowgate calibrate --mix`, and serve that policy",
            )
        return self._rule


def _mixed(rule: MixRule, by_part: Sequence[Sequence[SetScore]]) -> list[SetScore]:
    """The value of each question from what each part measured of it."""
    found = []
    for scores in zip(*by_part, strict=True):
        parts = [(one.joint, MixRule.margin(one.scores)) for one in scores]
        found.append(SetScore(scores[0].scores, rule.value(parts)))
    return found
