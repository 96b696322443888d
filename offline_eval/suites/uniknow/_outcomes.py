"""The outcome of a case: right, rightly abstained, or one of four kinds of error."""

from __future__ import annotations

from enum import StrEnum

from ....guard.decision import Scenario
from ....guard.matching import normalise_answer
from ._cases import ContextKind, Knowledge
from ._matching import stands_in
from ._rows import UniKnowRow

_HOLDING_SCENARIOS = (Scenario.CONFLICT, Scenario.AGREEMENT, Scenario.EXTERNAL_ONLY)
_HOLDING_KINDS = (
    ContextKind.ORIGINAL,
    ContextKind.CONFLICTING,
    ContextKind.ONE_OF_K,
    ContextKind.TWO_IN_CONFLICT,
)


class Outcome(StrEnum):
    """The outcome of a case that did not fail; every case has exactly one.

    The four errors are the paper's classes, defined so that a program can tell them apart:

    - `RIGHT`: the answer that was wanted; by luck also in the scenario `unknown`, as Acc
      counts it.
    - `RIGHT_ABSTENTION`: abstained, and the context does not hold the answer and the model
      does not know it, or only sometimes does.
    - `FALSE_ABSTENTION`: abstained although the context holds the answer or the model
      knows it.
    - `CONTEXTUAL`: the context was used wrongly: a wrong answer although it held the
      right one, or a wrong answer that occurs in a context without the right one.
    - `PARAMETRIC`: memory was used wrongly: the gold answer although the context says
      another, or, with a context that holds no answer, a wrong answer that does not
      occur in it, to a question of which the model knows something.
    - `OTHER`: the rest: an invented answer that neither context nor memory holds, an empty
      reply, or an untrue answer that was believed.
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


def outcome_of(row: UniKnowRow, context: str | None = None) -> Outcome:
    """Return the outcome of one case.

    Args:
        row: without an error.
        context: text of its context; without it, no wrong answer counts as taken from a
            context that does not hold the right one.
    """
    holds = context_holds_answer(row)
    if row.abstained:
        must_answer = holds or row.knowledge is Knowledge.KNOWN
        return Outcome.FALSE_ABSTENTION if must_answer else Outcome.RIGHT_ABSTENTION
    if row.right:
        return Outcome.RIGHT
    if row.misled or not normalise_answer(row.answer):
        return Outcome.OTHER
    if row.parametric:
        return Outcome.PARAMETRIC
    if holds or (context is not None and stands_in(row.answer, context)):
        return Outcome.CONTEXTUAL
    return Outcome.OTHER if row.knowledge is Knowledge.UNKNOWN else Outcome.PARAMETRIC


def context_holds_answer(row: UniKnowRow) -> bool:
    """Return whether the row's context states what counts as the right answer."""
    if row.scenario is None:
        return row.context_kind in _HOLDING_KINDS
    return row.scenario in _HOLDING_SCENARIOS
