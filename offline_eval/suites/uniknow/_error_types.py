"""What became of a case: right, rightly declined, or one of four kinds of error."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any

from ....guard.decision import Scenario
from ....guard.matching import normalise_answer
from ._cases import ContextKind, Knowledge

_HOLDING_SCENARIOS = (Scenario.CONFLICT, Scenario.AGREEMENT, Scenario.EXTERNAL_ONLY)
_HOLDING_KINDS = (
    ContextKind.ORIGINAL,
    ContextKind.CONFLICTING,
    ContextKind.ONE_OF_K,
    ContextKind.TWO_IN_CONFLICT,
)


class Outcome(StrEnum):
    """What became of a case that did not fail; every case has exactly one.

    The four errors are the paper's classes, made exact so that a program can tell them:

    - `RIGHT`: the answer that was wanted. By luck also in the scenario `unknown`, as
      Acc counts it.
    - `RIGHT_ABSTENTION`: declined where the context does not hold the answer and the
      model does not know it, or only sometimes does.
    - `FALSE_ABSTENTION`: declined although the context holds the answer or the model
      knows it.
    - `CONTEXTUAL`: the context was used wrongly: a wrong answer although it held the
      right one, or a wrong answer that stands in a context without the right one.
    - `PARAMETRIC`: memory was used wrongly: the gold answer where the context says
      another, or, with a context that holds no answer, a wrong answer that does not
      come from it to a question of which the model knows something.
    - `OTHER`: the rest: made up where neither context nor memory holds it, an empty
      reply, and an untrue answer that was believed.
    """

    RIGHT = "right"
    RIGHT_ABSTENTION = "right_abstention"
    FALSE_ABSTENTION = "false_abstention"
    CONTEXTUAL = "contextual"
    PARAMETRIC = "parametric"
    OTHER = "other"


ERROR_TYPES = (
    Outcome.CONTEXTUAL,
    Outcome.PARAMETRIC,
    Outcome.FALSE_ABSTENTION,
    Outcome.OTHER,
)


def outcome_of(row: Mapping[str, Any], context: str | None = None) -> Outcome:
    """What became of one case.

    Args:
        row: of a run: `scenario`, `knowledge`, `context_kind`, `answer`, `abstained`,
            `right`, `parametric`, `misled`; without an error.
        context: text of its context; None where it is not at hand: then no wrong answer
            counts as taken from a context that does not hold the right one.

    Example:
        >>> row = {"scenario": "unknown", "knowledge": "unknown", "context_kind": "random",
        ...        "answer": "Oslo", "abstained": False, "right": False}
        >>> outcome_of(row, "Oslo is a city."), outcome_of(row, "Rome is a city.")
        (<Outcome.CONTEXTUAL: 'contextual'>, <Outcome.OTHER: 'other'>)
    """
    holds = context_holds_answer(row)
    knows_nothing = row["knowledge"] == Knowledge.UNKNOWN
    if row["abstained"]:
        must_answer = holds or row["knowledge"] == Knowledge.KNOWN
        return Outcome.FALSE_ABSTENTION if must_answer else Outcome.RIGHT_ABSTENTION
    if row["right"]:
        return Outcome.RIGHT
    if row.get("misled") or not normalise_answer(row["answer"] or ""):
        return Outcome.OTHER
    if row.get("parametric"):
        return Outcome.PARAMETRIC
    if holds or (context is not None and stands_in(row["answer"], context)):
        return Outcome.CONTEXTUAL
    return Outcome.OTHER if knows_nothing else Outcome.PARAMETRIC


def context_holds_answer(row: Mapping[str, Any]) -> bool:
    """Whether the row's context states what is taken for the right answer."""
    if row["scenario"] is None:
        return row["context_kind"] in _HOLDING_KINDS
    return row["scenario"] in _HOLDING_SCENARIOS


def stands_in(answer: str, text: str) -> bool:
    """Whether the answer's words stand in the text, in a row, after normalisation.

    Example:
        >>> stands_in("the Red House.", "A red house burnt."), stands_in("Red", "reddish")
        (True, False)
    """
    wanted = normalise_answer(answer)
    return bool(wanted) and f" {wanted} " in f" {_normalised(text)} "


@lru_cache(maxsize=8192)
def _normalised(text: str) -> str:
    return normalise_answer(text)
