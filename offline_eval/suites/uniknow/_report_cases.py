"""The cases that the report of this suite shows."""

from __future__ import annotations

from collections.abc import Sequence

from ....guard.decision import Scenario
from ...report import Case, CaseLine, Cases, Passages, Section, one_line
from ._cases import ContextKind
from ._metrics import measured
from ._outcomes import ERROR_TYPES, Outcome, outcome_of
from ._reading import UniKnowRun
from ._report_names import KIND_TITLES, SITUATIONS, in_order, variant_of
from ._report_summary import contexts_of
from ._rows import CaseRow, UniKnowRow

_SHOWN = 10
_QUESTION_LIMIT, _PASSAGE_LIMIT, _REPLY_LIMIT, _ANSWERS = 300, 700, 120, 4
_OUTCOMES = {
    Outcome.RIGHT: "right",
    Outcome.RIGHT_ABSTENTION: "right abstention",
    Outcome.FALSE_ABSTENTION: "false abstention",
    Outcome.CONTEXTUAL: "context used wrongly",
    Outcome.PARAMETRIC: "memory used wrongly",
    Outcome.OTHER: "wrong",
}
_TITLES = {
    **{situation.name: situation.title for situation in SITUATIONS},
    "agreement": "Both agree",
}


def worst_cases(run: UniKnowRun) -> list[Section]:
    """Choose per kind of context the cases that most methods got wrong; ablations do not vote."""
    rows: dict[str, list[tuple[UniKnowRow, Outcome]]] = {}
    contexts = contexts_of(run)
    for row in measured(run.rows):
        key = row.case_key
        if variant_of(row.method) is None and key in run.cases:
            rows.setdefault(key, []).append((row, outcome_of(row, contexts[key])))
    found = []
    for kind in ContextKind:
        of_kind = {key: own for key, own in rows.items() if own[0][0].context_kind == kind}
        wrong = {key: count for key, own in of_kind.items() if (count := _wrong(own))}
        chosen = sorted(wrong, key=lambda key: (-wrong[key], key))[:_SHOWN]
        if chosen:
            title, meaning = KIND_TITLES[kind]
            cases = tuple(_shown(key, run.cases[key], of_kind[key]) for key in chosen)
            title = f"{title}: {len(cases)} of {len(wrong)} that some method got wrong"
            found.append(Section(title, (meaning, Cases(cases)), folded=True))
    return found


def _wrong(rows: Sequence[tuple[UniKnowRow, Outcome]]) -> int:
    return sum(outcome in ERROR_TYPES for _, outcome in rows)


def _shown(key: str, case: CaseRow, rows: Sequence[tuple[UniKnowRow, Outcome]]) -> Case:
    scenario = rows[0][0].scenario
    grouped: dict[tuple[str, Outcome], list[str]] = {}
    for row, outcome in rows:
        text = one_line(row.answer or "", _REPLY_LIMIT)
        grouped.setdefault((text, outcome), []).append(row.method)
    ordered = sorted(grouped.items(), key=lambda item: (-len(item[1]), item[0]))
    situation = _TITLES.get(scenario or "", "Not settled whether the model knows it")
    passages = tuple(CaseLine(one_line(passage, _PASSAGE_LIMIT)) for passage in case.passages)
    replies = (
        CaseLine(
            text or "(no answer)",
            tag=_OUTCOMES[outcome],
            wrong=outcome in ERROR_TYPES,
            note=", ".join(in_order(methods)),
        )
        for (text, outcome), methods in ordered
    )
    return Case(
        question=one_line(case.question, _QUESTION_LIMIT),
        note=f"{key} · {situation}",
        parts=(
            CaseLine(_wanted(case, scenario), "Wanted", right=True),
            Passages(passages),
            *replies,
        ),
    )


def _wanted(case: CaseRow, scenario: str | None) -> str:
    if scenario == Scenario.UNKNOWN:
        return f"to abstain (the answer would be: {_answers(case.answers)})"
    return _answers(case.context_answers or case.answers)


def _answers(answers: Sequence[str]) -> str:
    unique = list(dict.fromkeys(one_line(answer, _REPLY_LIMIT) for answer in answers))
    rest = f" (and {len(unique) - _ANSWERS} other wordings)" if len(unique) > _ANSWERS else ""
    return " / ".join(unique[:_ANSWERS]) + rest
