"""Runs of replies written by hand: small, and every number in them known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowgate.offline_eval.run import Question, RepliesRun
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.run.replies import ReplyCase, ReplySystem, StoredPassage
from tests.support.bound_rows import bind

SYSTEM = ReplySystem(system_id="s", model="m", prompt="basic", retrieval="basic_rag")


@dataclass(frozen=True)
class Toy:
    """A question: its kind, the verdict per system, and what else the test needs.

    Verdicts: `yes` declined, `1` to `3` answered with that tier, `no` answered and without a
    tier, `?` not judged, `error` failed, `-` not there yet.
    """

    name: str
    verdicts: Mapping[str, str]
    kind: CaseKind = CaseKind.LEFT_OUT
    base: str = ""
    topic: str | None = None
    text: str = ""
    held_out: bool | None = None


def toy(name: str, verdict: str = "yes", **changes: Any) -> Toy:
    """A question with one system's verdict, that of `SYSTEM`."""
    return Toy(name, {"s": verdict}, **changes)


def toys(verdicts: str, prefix: str = "q", **changes: Any) -> list[Toy]:
    """A question per sign: `y` declined, `1` to `3` tiers."""
    return [
        toy(f"{prefix}{number}", {"y": "yes", "x": "error"}.get(sign, sign), **changes)
        for number, sign in enumerate(verdicts)
    ]


def write_replies_run(
    folder: Path,
    questions: Sequence[Toy],
    systems: Sequence[ReplySystem] = (SYSTEM,),
    *,
    judge: str = "given",
    planned: int | None = None,
    response: str = "It costs five.",
    estimate: bool = False,
    failures: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Path:
    """Write the folder; the context of every reply is the passage `p0`."""
    cases = [_case(one) for one in questions]
    rows = [
        (one, case, system)
        for system in systems
        for one, case in zip(questions, cases, strict=True)
        if one.verdicts.get(system.system_id, "-") != "-"
    ]
    RepliesRun.start(
        folder,
        settings=dict(settings or {}),
        systems=systems,
        questions=[_question(one) for one in {one.name: one for one in questions}.values()],
        passages=[StoredPassage(passage_id="p0", text=response)],
        cases=cases,
        replies=len(rows) if planned is None else planned,
    )
    replies = [_reply(one, case, system, response) for one, case, system in rows]
    verdicts = [
        {**verdict, "estimate": estimate}
        for one, case, system in rows
        for verdict in judgements(
            f"{system.system_id}/{case.case_id}", one.verdicts[system.system_id], judge
        )
    ]
    verdicts += [
        judgement(reply_id, "failure", judge, outcome)
        for reply_id, outcome in (failures or {}).items()
    ]
    write_rows(folder / "replies.jsonl", replies)
    write_rows(folder / "judgements.jsonl", verdicts)
    return folder


def judgements(reply_id: str, verdict: str, judge: str) -> list[dict[str, Any]]:
    """What a judge says of a reply with that verdict."""
    if verdict in ("error", "?"):
        return []
    abstained = "yes" if verdict == "yes" else "no"
    found = [judgement(reply_id, "abstention", judge, abstained)]
    if verdict != "no":
        tier = "NA" if verdict == "yes" else f"tier_{verdict}"
        found.append(judgement(reply_id, "factuality", judge, tier))
    return found


def judgement(reply_id: str, criterion: str, judge: str, outcome: str) -> dict[str, Any]:
    return {
        "judgement_id": f"{reply_id}/{criterion}/{judge}",
        "reply_id": reply_id,
        "judge": judge,
        "criterion": criterion,
        "outcome": outcome,
    }


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append JSON lines, bound to the run that they are of."""
    with path.open("a", encoding="utf-8") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in rows)
    bind(path.parent, path.stem)


def _question(one: Toy) -> Question:
    return Question(
        question_id=one.name,
        question=one.text or f"What does {one.name} cost?",
        answer=one.text or "Six.",
        knowledge_base=one.base,
        topic=one.topic,
    )


def _case(one: Toy) -> ReplyCase:
    return ReplyCase(
        case_id=f"{one.name}/{one.kind.value}",
        question_id=one.name,
        kind=one.kind,
        knowledge_base=one.base,
        held_out=one.held_out,
    )


def _reply(one: Toy, case: ReplyCase, system: ReplySystem, response: str) -> dict[str, Any]:
    failed = one.verdicts[system.system_id] == "error"
    row = {
        "reply_id": f"{system.system_id}/{case.case_id}",
        "case_id": case.case_id,
        "system_id": system.system_id,
        "context": {"kind": "passages", "passages": ["p0"]},
        "response": None if failed else response,
        "error": {"type": "LanguageModelTimeoutError", "detail": "too slow"} if failed else None,
    }
    return row
