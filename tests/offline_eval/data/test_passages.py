"""From questions to passages, and to the cases asked against them."""

from __future__ import annotations

import pytest

from knowgate.guard import InputError
from knowgate.offline_eval.data.questions import KnowledgeBase, PassageKind, QuestionRecord

_RECORDS = [
    QuestionRecord("a", "Who?", "Ann.", passage="About Ann."),
    QuestionRecord("b", "When?", "At nine.", passage="About\n Ann. "),
    QuestionRecord("c", "Where?", " Ann.\n", passage="About towns."),
]


@pytest.mark.parametrize(
    ("kind", "passages", "passage_of"),
    [
        (PassageKind.ANSWER, {"a": "Ann.", "b": "At nine."}, {"a": "a", "b": "b", "c": "a"}),
        (
            PassageKind.QUESTION_ANSWER,
            {"a": "Who?\nAnn.", "b": "When?\nAt nine.", "c": "Where?\n Ann.\n"},
            {"a": "a", "b": "b", "c": "c"},
        ),
        (
            PassageKind.PASSAGE,
            {"a": "About Ann.", "c": "About towns."},
            {"a": "a", "b": "a", "c": "c"},
        ),
    ],
)
def test_questions_share_a_passage_that_says_the_same_word_for_word(
    kind: PassageKind, passages: dict[str, str], passage_of: dict[str, str]
) -> None:
    found = KnowledgeBase.of(_RECORDS, kind, where="kb")

    assert found.passages == passages
    assert found.passage_of == passage_of


def test_a_titled_passage_stands_below_its_source_and_two_titles_are_one_passage() -> None:
    records = [
        QuestionRecord("a", "Who?", "Ann.", passage="About Ann.", source="People"),
        QuestionRecord("b", "When?", "At nine.", passage="About\n Ann. ", source="Hours"),
        QuestionRecord("c", "Where?", "Here.", passage="About towns.", source="Towns"),
    ]
    found = KnowledgeBase.of(records, PassageKind.TITLED, where="kb")
    assert found.passages == {"a": "People\nAbout Ann.", "c": "Towns\nAbout towns."}
    assert found.passage_of == {"a": "a", "b": "a", "c": "c"}
    with pytest.raises(InputError, match="question 'a' has no field 'source', its passage's title"):
        KnowledgeBase.of(_RECORDS, PassageKind.TITLED, where="kb")
