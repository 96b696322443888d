"""What the labels of sources name: pages, sections, chunks and lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowgate.offline_eval.data.labels import Label, units

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
