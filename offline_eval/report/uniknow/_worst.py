"""The cases worth reading: those that most methods got wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....guard import Scenario
from ...uniknow._artefacts import StoredCase
from ...uniknow._cases import ContextKind
from ...uniknow._counts import MethodRow, case_key, measured
from ...uniknow._error_types import ERROR_TYPES, Outcome, outcome_of
from .._escaping import one_line, shortened
from ._evidence import Evidence
from ._names import KIND_TITLES, SITUATIONS, in_order, variant_of

SHOWN = 10
_QUESTION_LIMIT, _PASSAGE_LIMIT, _REPLY_LIMIT, _ANSWERS = 300, 700, 120, 4
OUTCOME_WORDS = {
    Outcome.RIGHT: "right",
    Outcome.RIGHT_ABSTENTION: "rightly declined",
    Outcome.FALSE_ABSTENTION: "declined without need",
    Outcome.CONTEXTUAL: "context used wrongly",
    Outcome.PARAMETRIC: "memory used wrongly",
    Outcome.OTHER: "wrong",
}
_TITLES = {
    **{situation.name: situation.title for situation in SITUATIONS},
    "agreement": "Both agree",
}


@dataclass(frozen=True, slots=True)
class ShownReply:
    """A reply, with the methods that gave it and what it was."""

    text: str
    outcome: str
    wrong: bool
    methods: str


@dataclass(frozen=True, slots=True)
class ShownCase:
    """A case as it is shown.

    Attributes:
        case_id: as stored, method aside.
        question: shortened.
        situation: which scenario, in words.
        wanted: what would have been right.
        passages: of the context, shortened.
        replies: equal ones together, those of most methods first.
    """

    case_id: str
    question: str
    situation: str
    wanted: str
    passages: tuple[str, ...]
    replies: tuple[ShownReply, ...]


@dataclass(frozen=True, slots=True)
class WorstOfKind:
    """The worst cases with one kind of context.

    Attributes:
        title: of the kind.
        meaning: what it is.
        cases: how many of the kind some method got wrong.
        shown: the worst of them.
    """

    title: str
    meaning: str
    cases: int
    shown: tuple[ShownCase, ...]


def worst_cases(evidence: Evidence) -> list[WorstOfKind]:
    """Per kind of context the cases that most methods got wrong; ablations do not vote."""
    rows: dict[str, list[tuple[MethodRow, Outcome]]] = {}
    contexts = evidence.contexts()
    for row in measured(evidence.rows):
        key = case_key(row)
        if variant_of(row["method"]) is None and key in evidence.cases:
            rows.setdefault(key, []).append((row, outcome_of(row, contexts[key])))
    found = []
    for kind in ContextKind:
        of_kind = {key: own for key, own in rows.items() if own[0][0]["context_kind"] == kind}
        wrong = {key: count for key, own in of_kind.items() if (count := _wrong(own))}
        chosen = sorted(wrong, key=lambda key: (-wrong[key], key))[:SHOWN]
        if chosen:
            shown = tuple(_shown(key, evidence.cases[key], of_kind[key]) for key in chosen)
            found.append(WorstOfKind(*KIND_TITLES[kind], len(wrong), shown))
    return found


def _wrong(rows: Sequence[tuple[MethodRow, Outcome]]) -> int:
    return sum(outcome in ERROR_TYPES for _, outcome in rows)


def _shown(key: str, case: StoredCase, rows: Sequence[tuple[MethodRow, Outcome]]) -> ShownCase:
    scenario = rows[0][0]["scenario"]
    grouped: dict[tuple[str, Outcome], list[str]] = {}
    for row, outcome in rows:
        text = shortened(row["answer"] or "", _REPLY_LIMIT)
        grouped.setdefault((text, outcome), []).append(row["method"])
    ordered = sorted(grouped.items(), key=lambda item: (-len(item[1]), item[0]))
    return ShownCase(
        case_id=one_line(key),
        question=shortened(case.question, _QUESTION_LIMIT),
        situation=_TITLES.get(scenario or "", "Not settled whether the model knows it"),
        wanted=_wanted(case, scenario),
        passages=tuple(shortened(passage, _PASSAGE_LIMIT) for passage in case.passages),
        replies=tuple(
            ShownReply(
                text or "(no answer)",
                OUTCOME_WORDS[outcome],
                outcome in ERROR_TYPES,
                ", ".join(one_line(name) for name in in_order(methods)),
            )
            for (text, outcome), methods in ordered
        ),
    )


def _wanted(case: StoredCase, scenario: str | None) -> str:
    if scenario == Scenario.UNKNOWN:
        return f"to decline (the answer would be: {_answers(case.answers)})"
    return _answers(case.context_answers or case.answers)


def _answers(answers: Sequence[str]) -> str:
    unique = list(dict.fromkeys(shortened(answer, _REPLY_LIMIT) for answer in answers))
    rest = f" (and {len(unique) - _ANSWERS} other wordings)" if len(unique) > _ANSWERS else ""
    return " / ".join(unique[:_ANSWERS]) + rest
