"""What makes a question unusable."""

from __future__ import annotations

import pytest

from knowgate.offline_eval.data.facts._checks import question_fault


@pytest.mark.parametrize(
    ("question", "answer", "fault"),
    [
        ("What is the speed limit in a tunnel?", "50 km/h", None),
        ("隧道内的限速是多少？", "每小时50公里", None),
        ("Is it an offence to park on a double yellow line?", "Yes.", None),
        ("What must drivers do when it rains?", "Slow down.", None),
        ("What must a driver do before they leave their car?", "Lock it.", None),
        ("Which documents must a learner carry?", "The licence.", None),
        ("What is in the title of the book of rules?", "Its year.", None),
        ("According to the passage, what is the limit?", "50 km/h", "refers_to_document"),
        ("What does this handbook say about tyres?", "Check them.", "refers_to_document"),
        ("What is mentioned above?", "Lanes.", "refers_to_document"),
        ("What do the given road sentences state?", "Keep left.", "refers_to_document"),
        ("根据本文，限速是多少？", "50公里", "refers_to_document"),
        ("When does it open?", "At nine.", "unclear_reference"),
        ("What are these for?", "Parking.", "unclear_reference"),
        ("它什么时候开门？", "九点。", "unclear_reference"),
        ("Is the limit 50 km/h or 60 km/h?", "50 km/h", "answer_in_question"),
        ("What colour is the red light?", "Red.", "answer_in_question"),
        ("限速是50公里吗？", "50公里", "answer_in_question"),
        ("The speed limit is", "50 km/h", "not_a_question"),
        ("What is the limit?", "  ", "empty_question"),
    ],
)
def test_a_question_is_refused_for_its_fault(question: str, answer: str, fault: str | None) -> None:
    found = question_fault(question, answer)

    assert (found and found[0]) == fault
