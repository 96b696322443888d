"""What the labelling page shows of a reply, and what it asks."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from ...run import RepliesRun, ReplyContext
from ._criteria import LabelCriterion

# Overrides and isolates of the writing direction can make a text read otherwise than it is
# stored. The marks of right-to-left languages stay.
_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")


def item_view(run: RepliesRun, reply_id: str) -> dict[str, Any]:
    """Question, expected answer, reply and citation, and what kind of context there was.

    No ids: they name the system, the guard and the kind of case. No judgements.
    """
    reply = run.replies[reply_id]
    question = run.question_of(reply)
    return {
        "question": plain(question.question),
        "expected": plain(question.answer),
        "response": plain(reply.response or ""),
        "citation": plain(reply.citation or ""),
        "context": _context_words(run, reply_id),
    }


def context_view(run: RepliesRun, reply_id: str) -> list[str]:
    """The passages in the context of a reply, as texts in their order."""
    return [plain(passage.text) for passage in run.context_passages(run.replies[reply_id])]


def plain(text: str) -> str:
    """Text as it is to be read: lines kept, nothing that acts on its surroundings.

    Example:
        >>> plain("one\\r\\ntwo\\x00\\u202e")
        'one\\ntwo\\ufffd'
    """
    text = _DIRECTION.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return "".join("\ufffd" if _acts(sign) else sign for sign in text)


def _acts(sign: str) -> bool:
    # Control characters and halves of characters.
    return sign not in "\n\t" and unicodedata.category(sign) in ("Cc", "Cs")


def _context_words(run: RepliesRun, reply_id: str) -> dict[str, Any]:
    reply = run.replies[reply_id]
    context = reply.context or ReplyContext()
    number = len(run.context_passages(reply))
    if context.kind == "none":
        return {"passages": 0, "words": "The model was given no context."}
    if number == 0:
        return {"passages": 0, "words": "It is not known what the model was given to read."}
    return {"passages": number, "words": f"{number} passage{'' if number == 1 else 's'}"}


def criterion_view(criterion: LabelCriterion) -> dict[str, Any]:
    """What the page asks: the question, and the outcomes with their keys."""
    meanings = criterion.meanings or ("",) * len(criterion.outcomes)
    yes_no = set(criterion.outcomes) == {"yes", "no"}
    return {
        "name": criterion.name,
        "question": plain(criterion.question) or f"{plain(criterion.name)}: which one?",
        "outcomes": [
            {
                "outcome": outcome,
                "text": plain(outcome),
                "meaning": plain(meaning),
                "key": outcome[0] if yes_no else str(number),
                "number": str(number),
            }
            for number, (outcome, meaning) in enumerate(
                zip(criterion.outcomes, meanings, strict=True), start=1
            )
        ],
    }
