"""Logged replies as systems under test, with guards put in front of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ...guard.decision import Route
from ..data.bases import AskedBase
from ..data.formats.replay import read_logs
from ..judging.run import GUARDS_OWN, OF_GUARD
from ..run.grouping import grouped
from ..run.replies import Judgement, ReplyCase, ReplyContext, ReplyRow, ReplySystem
from .plan import Asked, Case, Systems

_NONE = ReplyContext(kind="none")


class Replay:
    """Logged replies as systems: one per model, retrieval and prompt that they name, and guard.

    Args:
        paths: of the logs; see `read_replay_log`.
        bases: that their questions are from; without any, the questions and expected
            answers in the logs are used.
        systems: that are asked now; their guards are put in front of every logged system.
        limit: questions per knowledge base at most, the first ones.

    Attributes:
        systems: with and without guards.
        items: replies to be taken, in the order of the logs.
        questions: that they answer.
        passages: of the knowledge bases, and texts that none of them holds.
        judgements: labels of the logs, of replies without a guard.
        warnings: what was left out.

    Raises:
        InputError: a log cannot be read, or does not go with the questions.
    """

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        bases: Sequence[AskedBase],
        systems: Systems,
        *,
        limit: int | None = None,
    ) -> None:
        self.systems: list[ReplySystem] = []
        self.items: list[Asked] = []
        # Without logs nothing is looked up in the passages.
        found, known = read_logs(paths, bases if paths else ())
        asked = {
            question.question_id: question
            for base in known
            for question in list(base.questions.values())[:limit]
        }
        cases = {name: case for name, case in found.cases.items() if case.question_id in asked}
        rows = [row for row in found.replies.values() if row.case_id in cases]
        memory = _closed_book(found.systems, rows, cases)
        by_system = grouped(rows, lambda row: row.system_id)
        for name, system in found.systems.items():
            own = by_system.get(name, [])
            contexts = (row.context for row in own)
            sizes = (len(one.passages) for one in contexts if one and one.kind == "passages")
            record = system.model_copy(update={"top_k": max(sizes, default=None)})
            for replayed in systems.behind_guards(record) if own else ():
                self.systems.append(replayed)
                for row in own:
                    case = cases[row.case_id]
                    question, key = asked[case.question_id], (system.model, case.question_id)
                    item = Asked(
                        system=replayed,
                        case=Case.of(question, case.kind, question.own_passage),
                        base=case.knowledge_base,
                        logged=row,
                        closed_book=memory.get((system.prompt, *key)) or memory.get((None, *key)),
                    )
                    self.items.append(item)
        answered = dict.fromkeys(case.question_id for case in cases.values())
        self.questions = [asked[name] for name in answered]
        self.passages = [passage for base in known for passage in base.passages.values()]
        self.judgements = grouped(found.judgements.values(), lambda one: one.reply_id)
        self.warnings = found.warnings

    def judgements_of(self, rows: Mapping[str, ReplyRow]) -> list[Judgement]:
        """The labels that came with the logs, as judgements of the rows that hold those replies.

        Where the guard spoke in the model's place, its reply is an abstention by what it is;
        so it is labelled, provided that the logs are.

        Args:
            rows: of the run, by reply id.
        """
        found = []
        for item in self.items:
            row = rows.get(item.reply_id)
            if row is None or row.response is None or not (self.judgements and item.logged):
                continue
            given: Sequence[Judgement] = ()
            if not item.system.guarded or row.route is Route.FOLLOW_CONTEXT:
                if row.response == item.logged.response:
                    given = self.judgements.get(item.logged.reply_id, ())
            elif row.route is Route.ANSWER and item.closed_book is not None:
                given = self.judgements.get(item.closed_book.reply_id, ())
            elif row.route is Route.ABSTAIN:
                own = {"judge": Judgement.GIVEN, "reasoning": GUARDS_OWN}
                of: dict[str, Any] = {"judgement_id": row.reply_id, "reply_id": row.reply_id, **own}
                given = [Judgement(**of, criterion=c, outcome=o) for c, o in OF_GUARD.items()]
            for one in given:
                name = f"{row.reply_id}/{one.criterion}/{one.judge}"
                update = {"reply_id": row.reply_id, "judgement_id": name}
                found.append(one.model_copy(update=update))
        return found


def _closed_book(
    logged: Mapping[str, ReplySystem], rows: Sequence[ReplyRow], cases: Mapping[str, ReplyCase]
) -> dict[tuple[str | None, str, str], ReplyRow]:
    """Logged replies without context by prompt, model and question; None for any prompt."""
    found: dict[tuple[str | None, str, str], ReplyRow] = {}
    for row in rows:
        if row.context == _NONE and row.response is not None:
            system, question = logged[row.system_id], cases[row.case_id].question_id
            found[system.prompt, system.model, question] = row
            found.setdefault((None, system.model, question), row)
    return found
