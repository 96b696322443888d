"""The set as a whole."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.offline_eval.data.graph._drawing import AnswerSet, Material, met_window, unmet_window
from knowgate.offline_eval.data.graph.generation import GeneratedSet, generate_questions
from knowgate.offline_eval.data.graph.graph import KnowledgeGraph, Span
from knowgate.offline_eval.data.graph.items import QuestionType
from knowgate.offline_eval.data.graph.layout import UaqData
from knowgate.offline_eval.data.graph.loading import load_graph
from knowgate.offline_eval.data.graph.properties import GenerationSettings, PropertyRules
from knowgate.offline_eval.data.graph.question_templates import Templates
from tests.offline_eval.data.graph.graphs import ALIAS, RDF, RDFS, only
from tests.offline_eval.data.graph.test_loading import write

_E = "http://example.org/"


def write_out(made: GeneratedSet, folder: Path) -> dict[str, bytes]:
    made.write(folder)
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.slow
def test_what_is_written_reads_back_as_it_was(world_set: GeneratedSet, tmp_path: Path) -> None:
    write_out(world_set, tmp_path / "set")
    read = UaqData.read(tmp_path / "set")
    assert {item.key: item for item in read.items} == {
        item.key: item for item in world_set.data.items
    }
    assert {one.key: one for one in read.choices} == {
        one.key: one for one in world_set.data.choices
    }
    assert read.examples == world_set.data.examples
    assert read.clue_examples == world_set.data.clue_examples
    manifest = json.loads((tmp_path / "set" / "generation.json").read_text())
    assert manifest["graph"]["name"] == "microworld"
    assert manifest["counts"]["task1"]["en"]["inter"] == {"ua": 200, "ab": 200}


def test_the_same_seed_gives_the_same_bytes(
    wikidata_graph: KnowledgeGraph, wikidata_triples: str, tmp_path: Path
) -> None:
    lines = wikidata_triples.splitlines(keepends=True)
    Random(1).shuffle(lines)
    (tmp_path / "people.nt").write_text("".join(lines), encoding="utf-8")
    again = load_graph(tmp_path / "people.nt", languages=("en", "zh"))
    found = []
    for at, (graph, seed) in enumerate([(wikidata_graph, 0), (again, 0), (again, 1)]):
        chosen = GenerationSettings(languages=("en", "zh"), per_type=20, seed=seed)
        written = write_out(generate_questions(graph, chosen), tmp_path / str(at))
        written.pop("generation.json")
        found.append(written)
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_examples_are_mixed_and_share_no_fact_with_the_rest(world_set: GeneratedSet) -> None:
    rest = {triple for item in world_set.data.items for triple in item.triples}
    questions = {item.question for item in world_set.data.items}
    assert len(world_set.data.clue_examples) == 6
    for rows in world_set.data.clue_examples.values():
        assert len(rows) == 8
        assert [sum(item.unanswerable for item in rows[at : at + 2]) for at in (0, 2, 4)] == [1] * 3
        assert all(item.clues for item in rows)
        for item in rows:
            assert not set(item.triples) & rest
            assert item.question not in questions


def test_texts_are_whole_and_none_is_there_twice(world_set: GeneratedSet) -> None:
    for language in ("en", "zh"):
        items = [item for item in world_set.data.items if item.language == language]
        texts = [item.question for item in items]
        assert len(set(texts)) == len(texts)
        for item in items:
            for text in [item.question, *(clue.question for clue in item.clues)]:
                assert text
                assert text == text.strip()
                assert "{" not in text
                assert text[-1] in "?？"
            if item.type is not QuestionType.DILEMMA:
                assert not any(answer.label in item.question for answer in item.answers)
            else:
                one, two = item.options
                assert one not in two
                assert two not in one


# --- names that mislead -----------------------------------------------------------------------


def towns(tmp_path: Path, *more: str, names: tuple[str, ...] = ()) -> KnowledgeGraph:
    """Twelve rivers in twelve towns of one class, and what a test adds."""
    town_names = names or tuple(f"{first}ville" for first in "ABCDEFGHIJKL")
    lines = [f'<{_E}in> <{RDFS}label> "mouth"@en']
    for at, name in enumerate(town_names):
        lines.append(f'<{_E}t{at}> <{RDFS}label> "{name}"@en')
        lines.append(f"<{_E}t{at}> <{RDF}type> <{_E}Town>")
        lines.append(f'<{_E}r{at}> <{RDFS}label> "River {chr(97 + at) * 3}"@en')
        lines.append(f"<{_E}r{at}> <{_E}in> <{_E}t{at}>")
    return load_graph(write(tmp_path / "towns.nt", *lines, *more))


def dilemmas(graph: KnowledgeGraph, seed: int = 0, **rules: int) -> GeneratedSet:
    chosen = PropertyRules(**rules)
    settings = GenerationSettings(per_type=50, examples=4, seed=seed, rules=chosen)
    return only(generate_questions(graph, settings), QuestionType.DILEMMA)


def options(made: GeneratedSet, river: str) -> set[str]:
    return {
        option for item in made.data.items if river in item.question for option in item.options
    } | {option for one in made.data.choices if river in one.question for option in one.options}


def over_seeds(graph: KnowledgeGraph, river: str) -> set[str]:
    return set[str]().union(*(options(dilemmas(graph, seed), river) for seed in range(12)))


def test_an_option_that_is_right_by_another_name_is_never_offered_as_wrong(tmp_path: Path) -> None:
    plain = over_seeds(towns(tmp_path), "River aaa")
    assert {"Bville", "Cville", "Dville", "Eville"} <= plain
    graph = towns(
        tmp_path,
        f'<{_E}t0> {ALIAS} "Bville"@en',  # an alias of the right one
        f'<{_E}t2> {ALIAS} "AVILLE"@en',  # the right one is an alias
        f'<{_E}t3> {ALIAS} "Old Aville Town"@en',  # part of an alias
        f"<{_E}r0> <{_E}near> <{_E}t4>",  # linked by another property
        f"<{_E}t5> <{_E}near> <{_E}r0>",
        f"<{_E}t0> <{_E}part> <{_E}t6>",  # what the right one is a part of
    )
    offered = over_seeds(graph, "River aaa")
    assert "Aville" in offered
    assert "Lville" in offered
    assert not offered & {"Bville", "Cville", "Dville", "Eville", "Fville", "Gville"}


@settings(max_examples=8, deadline=None)
@given(
    st.lists(
        st.text(
            st.characters(exclude_characters='"\\\n\r', codec="utf-8"), min_size=1, max_size=12
        ),
        min_size=12,
        max_size=12,
    )
)
def test_any_names_give_a_set_that_reads_back(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("names")
    graph = towns(folder, names=tuple(names))
    made = dilemmas(graph)
    if not made.data.items:
        return
    write_out(made, folder / "set")
    read = UaqData.read(folder / "set")
    assert {item.key: item for item in read.items} == {item.key: item for item in made.data.items}
    for item in made.data.items:
        assert item.question.isprintable() or any(ch in "\u200c\u200d" for ch in item.question)


# --- years ------------------------------------------------------------------------------------

_SPAN = st.builds(
    lambda value, start, length: Span(value, start, None if length is None else start + length),
    st.sampled_from("abcd"),
    st.integers(1900, 1940),
    st.one_of(st.none(), st.integers(0, 20)),
)


@given(st.lists(_SPAN, min_size=1, max_size=6), st.booleans(), st.integers(0, 10**6))
def test_in_a_met_window_exactly_its_values_hold_all_the_time(
    spans: list[Span], single: bool, seed: int
) -> None:
    found = met_window(spans, single, Random(seed))
    if found is None:
        return
    (start, end), values = found
    held = [
        {one.value for one in spans if one.start <= year <= (one.end or one.start)}  # type: ignore[operator]
        for year in range(start, end + 1)
    ]
    possible = [
        {one.value for one in spans if one.start <= year <= (one.end or 9999)}  # type: ignore[operator]
        for year in range(start, end + 1)
    ]
    for year in range(end - start + 1):
        assert held[year] <= set(values)
        assert possible[year] == set(values)


@pytest.mark.slow
@given(st.lists(_SPAN, min_size=1, max_size=6), st.integers(0, 10**6), st.integers(0, 30))
def test_in_an_unmet_window_nothing_can_hold(spans: list[Span], seed: int, length: int) -> None:
    latest = max(year for span in spans for year in (span.start, span.end) if year is not None)
    window = unmet_window(spans, (1900, 1900 + length), (1880, latest), Random(seed))
    if window is None:
        return
    assert 1880 <= window[0] <= window[1] <= latest
    assert window[1] - window[0] == length
    for year in range(window[0], window[1] + 1):
        assert not any(one.start <= year <= (one.end or 9999) for one in spans)  # type: ignore[operator]


def test_wrong_answers_are_found_where_few_values_are_of_the_right_class(tmp_path: Path) -> None:
    lines = []
    for n in range(60):
        kind = "harbour" if n < 5 else "village"
        lines += [f'<{_E}s{n}> <{RDFS}label> "Thing{n}x"', f'<{_E}v{n}> <{RDFS}label> "Town{n}x"']
        lines += [f"<{_E}s{n}> <{_E}made> <{_E}v{n}>", f"<{_E}v{n}> <{RDF}type> <{_E}{kind}>"]
    (tmp_path / "made.nt").write_text(" .\n".join([*lines, ""]), encoding="utf-8")
    material = Material(load_graph(tmp_path / "made.nt"), GenerationSettings(), Templates())
    asked = AnswerSet(f"{_E}made", f"{_E}s0", (f"{_E}v0",))
    found = [material.wrong_answers(asked, f"{_E}v0", 3, Random(n)) for n in range(100)]
    assert sum(one is not None for one in found) > 60
