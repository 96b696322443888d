"""What the labels of sources name, and from questions to passages and cases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowgate.guard import InputError
from knowgate.offline_eval.data.labels import Label, units
from knowgate.offline_eval.data.questions import (
    KnowledgeBase,
    PassageKind,
    QuestionRecord,
    mean_shared_words,
    shared_words,
)

_PARTS = st.lists(
    st.sampled_from(["kb", "docs", "a.md", "b.md", "C#", "x"]), min_size=1, max_size=3
)
_FRAGMENTS = st.one_of(
    st.just(""),
    st.sampled_from(["#prices", "#trial", "#"]),
    st.integers(0, 9).map("::{}".format),
    st.integers(0, 9).map(":{}".format),
    st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda pair: f":{pair[0]}-{pair[1]}"),
)
_LABELS = st.builds(lambda parts, end: Label.of("/".join(parts) + end), _PARTS, _FRAGMENTS)


@pytest.mark.parametrize(
    ("text", "page", "kind"),
    [
        ("docs/plans.md", ("docs", "plans.md"), ""),
        ("plans.md#prices", ("plans.md",), "section"),
        ("plans.md#", ("plans.md",), ""),
        ("plans.md::3", ("plans.md",), "chunk"),
        ("plans.md:12", ("plans.md",), "lines"),
        ("plans.md:12-20", ("plans.md",), "lines"),
        ("kb\\plans.md:4", ("kb", "plans.md"), "lines"),
        ("C#.md", ("C#.md",), ""),
        ("app/#/page/prices", ("app", "#", "page", "prices"), ""),
        ("https://kb/plans#prices", ("https:", "kb", "plans"), "section"),
        ("http://localhost:8000", ("http:", "localhost:8000"), ""),
        (7, ("7",), ""),
    ],
)
def test_a_fragment_names_a_part_of_a_page(text: object, page: tuple[str, ...], kind: str) -> None:
    label = Label.of(text)

    assert label is not None
    assert (label.page, label.kind) == (page, kind)


@given(_LABELS, _LABELS)
def test_labels_overlap_both_ways_themselves_and_with_their_page(one: Label, other: Label) -> None:
    assert one.overlaps(one)
    assert one.overlaps(one.whole)
    assert one.overlaps(other) == other.overlaps(one)
    if one.overlaps(other):
        assert one.whole.overlaps(other.whole)


@given(st.lists(_LABELS, max_size=12))
def test_labels_that_overlap_are_merged_and_pages_apart_are_not(labels: list[Label]) -> None:
    merged = Label.merged(labels)

    for one in labels:
        assert merged[merged[one]] == merged[one]
        assert merged[one].page[-1] == one.page[-1]
        for other in labels:
            if one.overlaps(other):
                assert merged[one] == merged[other]


@given(st.dictionaries(st.integers(), st.frozensets(st.integers(0, 9), max_size=3), max_size=9))
def test_units_are_the_connected_components(parts: dict[int, frozenset[int]]) -> None:
    found = units(parts)

    # Grown one step at a time, in the plainest way.
    for name in parts:
        members = {name}
        while True:
            held = {part for one in members for part in parts[one]}
            more = {one for one in parts if parts[one] & held} | members
            if more == members:
                break
            members = more
        assert {one for one in parts if found[one] == found[name]} == members


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


@pytest.mark.parametrize(
    ("question", "passage", "share"),
    [
        ("How do I install Borg?", "Installing: Borg needs Python.", 1.0),
        ("My disk is full, what now?", "Free the space of the disk.", 1 / 3),
        ("Is it for you?", "Nothing but function words is asked.", None),
        ("如何安装？", "安装方法", 0.5),
    ],
)
def test_content_words_are_compared_without_their_endings(
    question: str, passage: str, share: float | None
) -> None:
    assert shared_words(question, passage) == (None if share is None else pytest.approx(share))


def test_the_mean_is_over_questions_with_content_words() -> None:
    assert (
        mean_shared_words([("Who is it?", "a"), ("red door", "The door"), ("lock", "locks")])
        == 0.75
    )
    assert mean_shared_words([]) is None
