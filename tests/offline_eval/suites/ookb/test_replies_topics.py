from __future__ import annotations

from collections.abc import Sequence

from knowgate.offline_eval.run import Question
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.run.replies import ReplyCase, ReplyRow, ReplySystem
from knowgate.offline_eval.suites.ookb._replies import JudgedReply
from knowgate.offline_eval.suites.ookb._replies_summary import Topic

SYSTEM = ReplySystem(system_id="s", model="m")


def questions(count: int, **fields: Sequence[str | None]) -> dict[str, Question]:
    """Questions with a field that goes round its values."""
    found = {}
    for number in range(count):
        own = {name: values[number % len(values)] for name, values in fields.items()}
        found[f"q{number}"] = Question.model_validate(
            {"question_id": f"q{number}", "question": f"What about number {number}?", **own}
        )
    return found


def breakdown(asked: dict[str, Question], field: str) -> list[Topic]:
    replies = [
        JudgedReply(
            row=ReplyRow(reply_id=name, case_id=name, system_id="s", response="x"),
            case=ReplyCase(case_id=name, question_id=name, kind=CaseKind.LEFT_OUT),
            question=question,
            system=SYSTEM,
            outcomes={"abstention": "yes"},
        )
        for name, question in asked.items()
    ]
    return Topic.of_field(field, asked, replies)


def test_the_topics_of_the_questions_come_first() -> None:
    found = breakdown(questions(9, topic=["a", "b", None]), "topic")

    assert [(topic.topic, topic.questions) for topic in found] == [
        ("(none given)", 3),
        ("a", 3),
        ("b", 3),
    ]


def test_sources_stand_in_where_they_hold_several_questions() -> None:
    found = breakdown(questions(8, source=["x", "y"]), "source")
    assert [topic.topic for topic in found] == ["x", "y"]

    assert breakdown(questions(8, source=[f"s{number}" for number in range(8)]), "source") == []
