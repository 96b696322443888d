from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from knowgate.guard import MissingDependencyError
from knowgate.guard.errors import DeviceError, ModelFolderError
from knowgate.offline_eval.run import Question
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.run.replies import ReplyCase, ReplyRow, ReplySystem
from knowgate.offline_eval.suites.ookb._replies import JudgedReply
from knowgate.offline_eval.suites.ookb._replies_topics import Topics, topics_of

SYSTEM = ReplySystem(system_id="s", model="m")
THEMES = ("parking fee at the garage", "library opening hours", "dog licence renewal")


def questions(count: int, **fields: Sequence[str | None]) -> dict[str, Question]:
    """Questions on the three themes in turn, with a field that goes round its values."""
    found = {}
    for number in range(count):
        own = {name: values[number % len(values)] for name, values in fields.items()}
        text = f"What about the {THEMES[number % 3]}, number {number}?"
        found[f"q{number}"] = Question.model_validate(
            {"question_id": f"q{number}", "question": text, **own}
        )
    return found


def breakdown(asked: dict[str, Question], **arguments: object) -> Topics:
    replies = [
        JudgedReply(
            row=ReplyRow(reply_id=name, case_id=name, system_id="s", response="x"),
            case=ReplyCase(case_id=name, question_id=name, kind=CaseKind.LEFT_OUT),
            question=question,
            system=SYSTEM,
            abstained=True,
            tier=None,
            failure=None,
        )
        for name, question in asked.items()
    ]
    return topics_of(asked, replies, **arguments)  # type: ignore[arg-type]


def by_theme(texts: Sequence[str]) -> np.ndarray:
    """A vector per text, near those of its theme."""
    return np.asarray(
        [
            [float(theme in text) + 0.001 * (number % 7) for theme in THEMES]
            for number, text in enumerate(texts)
        ],
        dtype=np.float32,
    )


def test_the_topics_of_the_questions_come_first() -> None:
    found = breakdown(questions(9, topic=["a", "b", None], source=["x", "y", "x"]))

    assert found.how == "topic"
    assert [(topic.topic, topic.questions) for topic in found.topics] == [
        ("(none given)", 3),
        ("a", 3),
        ("b", 3),
    ]


def test_sources_stand_in_where_they_hold_several_questions() -> None:
    assert breakdown(questions(8, source=["x", "y"])).how == "source"

    each = breakdown(questions(8, source=[f"s{number}" for number in range(8)]))
    assert (each.how, each.topics) == ("clusters", ())


def test_clusters_are_called_by_the_words_that_set_them_apart() -> None:
    found = breakdown(questions(20), embed=by_theme)

    assert found.how == "clusters"
    # Three themes in three clusters: round(sqrt(20 / 2)).
    assert sorted(topic.questions for topic in found.topics) == [6, 7, 7]
    words = {topic.topic for topic in found.topics}
    for theme in THEMES:
        assert any(set(theme.split()) & set(name.split(", ")) for name in words)
    assert found == breakdown(questions(20), embed=by_theme)


def test_few_or_equal_questions_have_no_clusters() -> None:
    assert breakdown(questions(19), embed=by_theme).topics == ()
    same = breakdown(questions(30), embed=lambda texts: np.ones((len(texts), 2), np.float32))
    assert same.topics == ()


@pytest.mark.parametrize("error", [DeviceError, MissingDependencyError, ModelFolderError])
def test_without_the_embedded_model_words_stand_in(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def missing(*_: object, **__: object) -> None:
        raise error("the model is not installed")

    monkeypatch.setattr("knowgate.guard.engine.BiEncoderScorer", missing)

    found = breakdown(questions(30))

    assert found.how == "word_clusters"
    assert sum(topic.questions for topic in found.topics) == 30
    assert len(found.topics) > 1
