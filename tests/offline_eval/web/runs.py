"""Small runs of several suites to look through."""

from __future__ import annotations

import json
from collections.abc import Sequence
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

HOSTILE = "<script>alert(1)</script>\u202e\x07 \ud83d"


def replies_run(folder: Path, questions: int = 6) -> Path:
    """Replies of a plain and a guarded system; the guard abstains on left-out questions."""
    systems = [
        ReplySystem(system_id=name, model="m", guard=guard, guard_sha256=guard)
        for name, guard in (("plain", "off"), ("guarded", "policy"))
    ]
    asked = [
        Question(
            question_id=f"q{n}",
            question=f"When does pool {n} open?" if n else f"What is {HOSTILE}?",
            answer=f"Pool {n} opens at {n}.",
            passage_id=f"p{n}",
        )
        for n in range(questions)
    ]
    cases = [
        ReplyCase(case_id=f"{one.question_id}/{kind.value}", question_id=one.question_id, kind=kind)
        for one in asked
        for kind in CaseKind.twins()
    ]
    texts = [
        StoredPassage(passage_id=f"p{n}", text=f"The pool {n} opens at {n}. Zebra{n}.")
        for n in range(questions)
    ]
    RepliesRun.start(
        folder,
        settings={},
        systems=systems,
        questions=asked,
        passages=texts,
        cases=cases,
        replies=len(cases) * 2,
    )
    with (
        RepliesRun.REPLIES.open(folder) as replies,
        RepliesRun.JUDGEMENTS.open(folder) as judgements,
    ):
        for system in systems:
            for number, case in enumerate(cases):
                row = _reply(system, case, number)
                replies.append(row.model_dump(mode="json"))
                judgement = Judgement(
                    judgement_id=f"{row.reply_id}/abstention/detector",
                    reply_id=row.reply_id,
                    judge="detector",
                    criterion="abstention",
                    outcome="yes" if row.route == "abstain" else "no",
                    reasoning="because",
                )
                judgements.append(judgement.model_dump(mode="json"))
    return folder


def _reply(system: ReplySystem, case: ReplyCase, number: int) -> ReplyRow:
    values: dict[str, Any] = {}
    abstains = system.guard != "off" and case.kind is CaseKind.LEFT_OUT
    if system.guard != "off":
        values = {
            "route": "abstain" if abstains else "follow_context",
            "reason": "insufficient_context" if abstains else "sufficient_context",
            "relevance": number / 20,
        }
    # Of most replies the run does not hold all that the model was given.
    whole = system.guard != "off" and case.kind is CaseKind.IN_KB
    given = (f"p{number // 2}",) if whole else (f"p{number // 2}", "gone")
    told = f"It opens at {number // 2}. At {number} o'clock."
    return ReplyRow(
        reply_id=f"{system.system_id}/{case.case_id}",
        case_id=case.case_id,
        system_id=system.system_id,
        context=ReplyContext(kind="passages", passages=given),
        response="I do not know." if abstains else told,
        **values,
    )


def suite_run(folder: Path, suite: str, **tables: Sequence[dict[str, Any]]) -> Path:
    """A run of a suite with the given tables."""
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(
        json.dumps({"schema_version": 1, "suite": suite, "created_by": "knowgate", "settings": {}}),
        encoding="utf-8",
    )
    for name, rows in tables.items():
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    return folder
