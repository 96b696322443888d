"""What questions are about: as the input says, or by source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ...report.text import one_line
from ...run import Question
from ._replies import JudgedReply, ReplyShape, distinct, grouped

_NOT_GIVEN = "(none given)"


@dataclass(frozen=True, slots=True)
class Topic:
    """Outcomes of the questions on one topic, all systems together.

    Attributes:
        topic: its name.
        questions: on it.
        replies: to them, counted.
    """

    topic: str
    questions: int
    replies: ReplyShape


@dataclass(frozen=True, slots=True)
class Topics:
    """The breakdown, and the field that topics come from; empty where there are none."""

    how: Literal["topic", "source"]
    topics: tuple[Topic, ...] = ()


def topics_of(questions: Mapping[str, Question], replies: Sequence[JudgedReply]) -> Topics:
    """Group the replies by topic, those with the most questions first.

    Without topics, sources stand in where they hold several questions.

    Args:
        questions: of the run, by id.
        replies: without errors.
    """
    different = {
        field: len({getattr(one, field) for one in questions.values() if getattr(one, field)})
        for field in ("topic", "source")
    }
    how: Literal["topic", "source"] = "topic" if different["topic"] > 1 else "source"
    # A source for each question is no topic.
    if different[how] < 2 or (how == "source" and different[how] > len(questions) / 2):
        return Topics(how)
    members = grouped(
        replies,
        lambda reply: one_line(getattr(questions[reply.case.question_id], how) or "") or _NOT_GIVEN,
    )
    found = [
        Topic(name, len({reply.case.question_id for reply in own}), ReplyShape(own))
        for name, own in zip(distinct(list(members)), members.values(), strict=True)
    ]
    if len(found) < 2:
        return Topics(how)
    return Topics(how, tuple(sorted(found, key=lambda topic: (-topic.questions, topic.topic))))
