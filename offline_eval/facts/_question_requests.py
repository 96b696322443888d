"""Facts to requests for questions, and replies to questions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from ._artefacts import CallRow, FactRow, FailureRow, QuestionRow, Stage
from ._asking import Checked, Request
from ._checks import question_fault
from ._prompts import BuildPrompts
from ._schemas import QuestionReply

_NONE = "(none)"


def question_key(fact: FactRow, *, model: str, prompts: BuildPrompts) -> str:
    """What the request is stored under: what is asked, how, and of whom."""
    parts = [model, prompts.sha256(prompts.question), fact.topic or "", fact.passage, fact.text]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


def question_prompt_text(fact: FactRow, prompts: BuildPrompts) -> str:
    """What the model is asked."""
    return prompts.question.fill(fact=fact.text, passage=fact.passage, topic=fact.topic or _NONE)


def question_request(fact: FactRow, *, model: str, prompts: BuildPrompts) -> Request:
    """The request for the question that a fact answers."""
    return Request(
        question_key(fact, model=model, prompts=prompts),
        question_prompt_text(fact, prompts),
        _check,
    )


def _check(reply: QuestionReply) -> Checked:
    found = {
        "question": " ".join(reply.question.split()),
        "answer": " ".join(reply.answer.split()),
    }
    fault = question_fault(found["question"], found["answer"])
    return Checked(found) if fault is None else Checked(None, (fault,))


def questions_of(
    facts: Sequence[FactRow], rows: dict[str, CallRow], *, model: str, prompts: BuildPrompts
) -> tuple[list[QuestionRow], list[FailureRow]]:
    """The questions of all facts that have a reply, in order."""
    questions: list[QuestionRow] = []
    failures: list[FailureRow] = []
    for fact in facts:
        row = rows.get(question_key(fact, model=model, prompts=prompts))
        if row is None:
            continue
        if row.reply is None or row.error is not None:
            type_, detail = row.error or ("schema_error", "")
            failures.append(_failure(fact, type_, detail))
            continue
        reply = QuestionReply.model_validate(row.reply)
        questions.append(
            QuestionRow(
                id=fact.fact_id,
                question=reply.question,
                answer=reply.answer,
                passage=fact.passage,
                source=fact.document,
                topic=fact.topic,
                fact=fact.text,
                citations=fact.citations,
                origin="model",
            )
        )
    return questions, failures


def _failure(fact: FactRow, type_: str, detail: str) -> FailureRow:
    return FailureRow(
        stage=Stage.QUESTIONS,
        type=type_,
        detail=detail,
        document=fact.document,
        about=(fact.fact_id,),
    )


def one_of_each(
    questions: Sequence[QuestionRow],
) -> tuple[list[QuestionRow], list[FailureRow]]:
    """Questions that tell their facts apart.

    Of several with the same question and answer the first is kept; where the same
    question has different answers, none of those made here is: it has no right answer.
    """
    answers: dict[str, set[str]] = {}
    for row in questions:
        answers.setdefault(_plain(row.question), set()).add(_plain(row.answer))
    kept: list[QuestionRow] = []
    failures: list[FailureRow] = []
    seen: set[tuple[str, str]] = set()
    for row in questions:
        asked = _plain(row.question), _plain(row.answer)
        fault = None
        if len(answers[asked[0]]) > 1 and row.origin != "document":
            fault = "ambiguous_question", "the same question has another answer elsewhere"
        elif asked in seen:
            fault = "duplicate_question", "the same question with the same answer was made before"
        if fault is None:
            seen.add(asked)
            kept.append(row)
        else:
            failures.append(
                FailureRow(
                    stage=Stage.QUESTIONS,
                    type=fault[0],
                    detail=fault[1],
                    document=row.source,
                    about=(row.id,),
                )
            )
    return kept, failures


def _plain(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".?!。？！ ")
