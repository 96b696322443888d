"""Detectors by name: the bundled one, and published word lists for reproduction."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ..errors import InputError
from ..policy import Fingerprint
from ._citation import Citation
from ._detector import AbstentionDetector, AbstentionRule, AbstentionVerdict, check_lengths
from ._reading import reply_text

_UNIKNOW = re.compile(
    "unanswerable|unknown|no known|not known|do not know|uncertain|unclear|no scientific evidence"
    "|no definitive answer|no right answer|no concrete answer|no public information|debate"
    "|impossible to know|impossible to answer|difficult to predict|not sure|irrelevant"
    "|not relevant",
    re.IGNORECASE,
)
_UAQFACT = re.compile(r"There is no| no |non-existent|not a|#none|none", re.IGNORECASE)
# Searched for in the lower-cased reply: a few letters (long s, Kelvin) are not what a search
# that ignores case takes them for.
_UAQFACT_WORDS = re.compile(
    r"\b(?:not|no|sorry|don't|doesn't|didn't|can't|couldn't|won't|wouldn't|isn't|unknown|unclear)\b"
)


class PatternRule:
    """Abstained where a pattern is found anywhere in the raw reply.

    Args:
        name: how fingerprints call it.
        pattern: what to search for.
        lowered: what to search for in the reply in lower case, where that matters.
    """

    def __init__(
        self, name: str, pattern: re.Pattern[str], lowered: re.Pattern[str] | None = None
    ) -> None:
        self._name, self._pattern, self._lowered = name, pattern, lowered

    @property
    def fingerprint(self) -> Fingerprint:
        """What made a verdict, for runs and reports."""
        return Fingerprint(kind=f"abstention_{self._name}", backend="python")

    def detect(
        self, response: str, *, question: str | None = None, citation: object = Citation.UNKNOWN
    ) -> AbstentionVerdict:
        """The verdict on one reply; `question` and `citation` are not used."""
        del question, citation
        text = reply_text(response)
        found = self._pattern.search(text) is not None
        if not found and self._lowered is not None:
            found = self._lowered.search(text.lower()) is not None
        return AbstentionVerdict(abstained=found, probability=float(found))

    def detect_many(
        self,
        responses: Sequence[str],
        *,
        questions: Sequence[str | None] | None = None,
        citations: Sequence[object] | None = None,
    ) -> list[AbstentionVerdict]:
        """The verdicts on many replies, in order.

        Raises:
            InputError: `questions` or `citations` are not as many as `responses`.
        """
        check_lengths(responses, questions, citations)
        return [self.detect(response) for response in responses]


_RULES: dict[str, Callable[[], AbstentionRule]] = {
    "default": AbstentionDetector,
    "uaqfact": lambda: PatternRule("uaqfact", _UAQFACT, _UAQFACT_WORDS),
    "uniknow": lambda: PatternRule("uniknow", _UNIKNOW),
}


def rule_names() -> tuple[str, ...]:
    """Names that `load_rule` knows, sorted."""
    return tuple(sorted(_RULES))


def load_rule(name: str) -> AbstentionRule:
    """The detector called `name`.

    `default` is the bundled `AbstentionDetector`. `uniknow` looks for the abstention
    words of UniKnow, and `uaqfact` is UAQFact's refusal rule as coded: English only,
    straight apostrophes only, and with many real answers among its findings. Both
    serve to reproduce published numbers.

    Raises:
        InputError: there is none of that name.

    Source: "UniKnow: A Unified Framework for Reliable Language Model Behavior across
    Parametric and External Knowledge"; "UAQFact: Evaluating Factual Knowledge
    Utilization of LLMs on Unanswerable Questions".
    """
    if name not in _RULES:
        raise InputError(
            f"unknown abstention rule {name!r}", hint=f"one of: {', '.join(rule_names())}"
        )
    return _RULES[name]()
