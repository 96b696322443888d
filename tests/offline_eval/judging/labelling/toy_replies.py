"""A small finished run of replies, made by the functions that real runs are made with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from knowgate.offline_eval.run import Question, RepliesRun
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.run.replies import (
    Judgement,
    ReplyCase,
    ReplyContext,
    ReplyRow,
    ReplySystem,
    StoredPassage,
)

SYSTEMS = (
    ReplySystem(system_id="alpha·direct·basic", model="alpha", prompt="basic", retrieval="direct"),
    ReplySystem(
        system_id="alpha·rag·careful·guarded",
        model="alpha",
        prompt="careful",
        retrieval="basic_rag",
        guard="secret-policy",
        top_k=2,
    ),
)
BASES = {"parks": 12, "pools": 4}


def toy_run(
    folder: Path,
    *,
    systems: Sequence[ReplySystem] = SYSTEMS,
    bases: Mapping[str, int] = BASES,
    response: Callable[[str, int], str | None] | None = None,
    citation: str | None = "passage 1",
    question: str = "How much is a day ticket?",
    finished: bool = True,
) -> RepliesRun:
    """A run of `systems` over `bases` (name → number of questions).

    Args:
        response: of (system id, number of the question); a usual one where None.
    """
    questions, passages, cases = _asked(bases, question)
    planned = [(system, number) for system in systems for number in range(len(cases))]
    RepliesRun.start(
        folder,
        settings={"seed": 0},
        systems=systems,
        questions=questions,
        passages=passages,
        cases=cases,
        replies=len(planned),
    )
    if not finished:
        planned = planned[:-1]
    with RepliesRun.REPLIES.open(folder) as store:
        for system, number in planned:
            text = (response or _usual)(system.system_id, number)
            case = cases[number]
            row = _row(system, case, text, citation, passages[number].passage_id)
            store.append(row.model_dump(mode="json"))
    with RepliesRun.JUDGEMENTS.open(folder) as store:
        for system, number in planned:
            reply_id = f"{system.system_id}/{cases[number].case_id}"
            found = Judgement(
                judgement_id=f"{reply_id}/abstention/hidden-judge",
                reply_id=reply_id,
                judge="hidden-judge",
                criterion="abstention",
                outcome="no",
                reasoning="judged-by-a-machine",
            )
            store.append(found.model_dump(mode="json"))
    return RepliesRun.read(folder)


def _asked(
    bases: Mapping[str, int], question: str
) -> tuple[list[Question], list[StoredPassage], list[ReplyCase]]:
    questions, passages, cases = [], [], []
    for base, number in bases.items():
        for index in range(number):
            name = f"{base}-{index}"
            questions.append(
                Question(
                    question_id=name,
                    question=f"{question} ({name})",
                    answer=f"A day ticket is {index + 3} euros.",
                    passage_id=f"{name}-passage",
                    knowledge_base=base,
                )
            )
            passages.append(
                StoredPassage(
                    passage_id=f"{name}-passage",
                    text=f"Tickets of {name} are sold at the gate.",
                    knowledge_base=base,
                )
            )
            cases.append(
                ReplyCase(
                    case_id=f"{name}/left_out",
                    question_id=name,
                    kind=CaseKind.LEFT_OUT,
                    knowledge_base=base,
                )
            )
    return questions, passages, cases


def _row(
    system: ReplySystem, case: ReplyCase, text: str | None, citation: str | None, passage: str
) -> ReplyRow:
    values: dict[str, Any] = {}
    if text is None:
        values["error"] = {"type": "TimeoutError", "detail": "no answer"}
    direct = system.retrieval == "direct"
    return ReplyRow(
        reply_id=f"{system.system_id}/{case.case_id}",
        case_id=case.case_id,
        system_id=system.system_id,
        context=ReplyContext(kind="none")
        if direct
        else ReplyContext(kind="passages", passages=(passage,)),
        response=text,
        citation=citation,
        **values,
    )


def _usual(system_id: str, number: int) -> str:
    if number % 2:
        return "I do not have information about that."
    return f"A day ticket is {number + 3} euros."
