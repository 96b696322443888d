"""Asking a relevance scorer: does it know the language, what does it say, is it a number?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from ._contracts import RelevanceScorer, SetRelevanceScorer, SetScore
from ._errors import SignalValueError, UnsupportedLanguageError
from ._flow import Failure, Need, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable


def judges_sets(scorer: object) -> bool:
    """Whether a scorer judges several passages together."""
    # Looked up by name: `isinstance` would ask for the fingerprint, which may take long.
    return all(callable(getattr(scorer, name, None)) for name in ("score_set", "score_sets"))


def measured_relevance(scorer: RelevanceScorer, need: Need, *, joint: bool) -> Outcome:
    """What the scorer says of one question's passages, checked.

    Args:
        scorer: with `score_set` and `score_sets` where `joint` is asked for.
        need: a question with at least one passage.
        joint: whether all passages are judged together besides.

    Returns:
        The scores, a `SetScore` under `joint`, or a failure with an
        `UnsupportedLanguageError` where the scorer does not know the question's language.

    Raises:
        SignalValueError: the scorer returned something other than finite numbers.
    """
    if not _supported(scorer, need.question):
        return _unsupported()
    if joint:
        judged = cast("SetRelevanceScorer", scorer).score_set(need.question, need.passages)
        return checked_set(judged, len(need.passages))
    return checked_scores(scorer.score(need.question, need.passages), len(need.passages))


def measured_relevances(
    scorer: RelevanceScorer, needs: Sequence[Need], *, joint: bool
) -> list[Outcome]:
    """As `measured_relevance` for several questions, in one call of the scorer."""
    supported = [_supported(scorer, need.question) for need in needs]
    asked = [need for need, known in zip(needs, supported, strict=True) if known]
    found = iter(_scored(scorer, asked, joint=joint) if asked else [])
    return [next(found) if known else _unsupported() for known in supported]


def _scored(scorer: RelevanceScorer, needs: Sequence[Need], *, joint: bool) -> list[Outcome]:
    if joint:
        judged: Any = cast("SetRelevanceScorer", scorer).score_sets(
            [need.question for need in needs], [need.passages for need in needs]
        )
        if len(judged) != len(needs):
            raise SignalValueError("relevance", f"{len(judged)} values for {len(needs)} questions")
        return [
            checked_set(one, len(need.passages)) for one, need in zip(judged, needs, strict=True)
        ]
    pairs = [(need.question, passage) for need in needs for passage in need.passages]
    scores = iter(checked_scores(scorer.score_pairs(pairs), len(pairs)))
    return [[next(scores) for _ in need.passages] for need in needs]


def _unsupported() -> Failure:
    detail = "the scorer does not know the question's language"
    return Failure(UnsupportedLanguageError("relevance", detail))


def _supported(scorer: RelevanceScorer, question: str) -> bool:
    supports: Callable[[str], object] | None = getattr(scorer, "supports", None)
    if supports is None:
        return True
    found: Any = supports(question)
    found = found.item() if getattr(found, "ndim", None) == 0 else found
    if not isinstance(found, bool):
        raise SignalValueError("relevance", f"supports returned {type(found).__name__}")
    return found


def checked_set(judged: Any, count: int) -> SetScore:
    """The scores and the joint value as finite floats.

    Raises:
        SignalValueError: another type, wrong number of scores, NaN or infinite.
    """
    if not isinstance(judged, SetScore):
        raise SignalValueError("relevance", f"the scorer returned {type(judged).__name__}")
    return SetScore(
        tuple(checked_scores(judged.scores, count)), checked_scores([judged.joint], 1)[0]
    )


def checked_scores(scores: Any, count: int) -> list[float]:
    """The scores as finite floats.

    Raises:
        SignalValueError: wrong number of scores, not numbers, NaN or infinite.
    """
    try:
        values = [_number(score) for score in scores]
    except (TypeError, ValueError, OverflowError):
        raise SignalValueError("relevance", "the scorer did not return numbers") from None
    if len(values) != count:
        raise SignalValueError("relevance", f"{len(values)} scores for {count} passages")
    if not all(math.isfinite(value) for value in values):
        raise SignalValueError("relevance", "the scorer returned NaN or infinity")
    return values


def _number(score: Any) -> float:
    # float() would read the text "0.5", take True for 1, and flatten a column of one.
    if isinstance(score, str | bytes | bool) or getattr(score, "ndim", 0) != 0:
        raise TypeError
    return float(score)
