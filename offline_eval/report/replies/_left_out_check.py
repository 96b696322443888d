"""Questions whose answer the rest of the knowledge base seems to hold all the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....guard import InputError
from ....guard.files import read_jsonl
from ...replies import RepliesRun

FILE_NAME = "left_out_check.jsonl"


@dataclass(frozen=True, slots=True)
class AnsweredElsewhere:
    """A passage that may answer a question whose own passage was taken out.

    Attributes:
        question_id: of the run.
        passage_id: of the passage.
        similarity: to the question's own passage or answer; None where not measured.
        how: it was found.
    """

    question_id: str
    passage_id: str
    similarity: float | None
    how: str

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "question_id": self.question_id,
            "passage_id": self.passage_id,
            "similarity": self.similarity,
            "how": self.how,
        }


def read_left_out_check(run: RepliesRun) -> tuple[AnsweredElsewhere, ...] | None:
    """What the check found, in the order of the file; None where it was not made.

    Raises:
        InputError: a line of the file is broken; names file and line.
    """
    path = run.folder / FILE_NAME
    if not path.exists():
        return None
    found = []
    for number, value in read_jsonl(path):
        question, passage = value.get("question_id"), value.get("passage_id")
        similarity = value.get("similarity")
        if not isinstance(question, str) or not isinstance(passage, str):
            raise InputError(
                "field 'question_id' or 'passage_id' is missing or no text",
                where=f"{path}:{number}",
                mend="remove the file, or make the check again",
            )
        found.append(
            AnsweredElsewhere(
                question,
                passage,
                _number(similarity),
                str(value.get("how") or ""),
            )
        )
    return tuple(found)


def _number(value: Any) -> float | None:
    """A number that JSON can hold, None for whatever else stands there."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < 1e9 else None
