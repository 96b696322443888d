"""A small knowledge base, and what notes everything that it is asked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from knowgate.guard import Fingerprint
from knowgate.offline_eval.data.questions import KnowledgeBase, PassageKind, QuestionRecord
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.systems.plan import Case
from tests.offline_eval.suites.ookb.toy import embed

RECORDS = [
    QuestionRecord("a", "When does the library open?", "At nine in the morning every weekday."),
    QuestionRecord("b", "What does the ferry cost?", "The ferry costs four crowns each way."),
    QuestionRecord("c", "Who runs the museum?", "Ada Holm runs the museum since spring."),
    QuestionRecord("d", "Where is the market?", "The market is beside the old harbour."),
]
BASE: KnowledgeBase = KnowledgeBase.of(RECORDS, PassageKind.ANSWER, where="toy")
CASES = {
    f"{one.question_id}/{kind}": Case(
        f"{one.question_id}/{kind}",
        one.question_id,
        kind,
        one.question,
        BASE.passage_of[one.question_id],
    )
    for one in RECORDS
    for kind in (CaseKind.IN_KB, CaseKind.LEFT_OUT)
}
MADE_UP = Case("s/synthetic", "s", CaseKind.SYNTHETIC, "Is there a night ferry?", "")


class RecordingEncoder:
    """Embeds by counted words, and notes each text."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(kind="recording")

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.seen.extend(texts)
        return embed(texts)
