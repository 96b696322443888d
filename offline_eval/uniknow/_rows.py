"""Rows of a run: what a reply is worth, and the case it belongs to."""

from __future__ import annotations

from typing import Any

from ._cases import Reply, ScenarioCase
from ._exact_match import is_right


def row_id(method: str, case: ScenarioCase) -> str:
    """Unique in a run."""
    return f"{method}|{case.case_id}"


def row_of(method: str, case: ScenarioCase, reply: Reply) -> dict[str, Any]:
    """A reply, judged by exact match after normalisation.

    `right`: an answer that the case expects. `parametric`: a gold answer where another one
    is expected. `misled`: what an untrue context says. All three are False for a reply
    that abstains or failed.
    """
    answers = "" if reply.abstained or reply.error else reply.text
    right = is_right(answers, case.expected)
    scenario = case.scenario
    return {
        "case_id": row_id(method, case),
        "method": method,
        "dataset": case.question.dataset,
        "question_id": case.question.id,
        "group": case.question.group,
        "context_kind": case.context.kind.value,
        "scenario": None if scenario is None else scenario.value,
        "knowledge": case.knowledge.value,
        "answer": reply.text,
        "abstained": reply.abstained,
        "right": right,
        "parametric": not right and is_right(answers, case.question.answers),
        "misled": not right and is_right(answers, case.context.untrue_answers),
        "route": reply.route,
        "relevance": reply.relevance,
        "confidence": reply.confidence,
        "error": reply.error,
    }
