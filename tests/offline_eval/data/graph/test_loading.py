"""Reading graphs."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyoxigraph
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowgate.guard import InputError
from knowgate.offline_eval.data.graph.generation import generate_questions
from knowgate.offline_eval.data.graph.graph import KnowledgeGraph, Span
from knowgate.offline_eval.data.graph.loading import load_graph
from knowgate.offline_eval.data.graph.properties import GenerationSettings
from tests.offline_eval.data.graph.graphs import RDF, RDFS, WD, WIKIBASE, XSD, entity

_E = "http://example.org/"


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line} .\n" for line in lines), encoding="utf-8")
    return path


def facts(graph: KnowledgeGraph) -> set[tuple[str, str, str]]:
    return {
        (subject, prop, obj) for prop, found in graph.facts.items() for subject, obj in found.pairs
    }


@pytest.mark.parametrize("ending", ["ttl", "nq", "trig", "rdf", "n3", "jsonld", "nt.gz", "ttl.gz"])
def test_all_formats_give_the_same_questions(
    wikidata_file: Path, wikidata_graph: KnowledgeGraph, tmp_path: Path, ending: str
) -> None:
    store = pyoxigraph.Store()
    store.load(path=str(wikidata_file))
    shape = pyoxigraph.RdfFormat.from_extension(ending.removesuffix(".gz"))
    assert shape is not None
    data = store.dump(format=shape, from_graph=pyoxigraph.DefaultGraph())
    assert data is not None
    path = tmp_path / f"people.{ending}"
    path.write_bytes(gzip.compress(data) if ending.endswith(".gz") else data)
    graph = load_graph(path, languages=("en", "zh"))
    assert facts(graph) == facts(wikidata_graph)
    settings = GenerationSettings(languages=("en", "zh"), per_type=10)
    found = generate_questions(graph, settings)
    assert found.data == generate_questions(wikidata_graph, settings).data


def test_a_store_on_disk_is_read_and_another_folder_is_refused(
    wikidata_file: Path, wikidata_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    store = pyoxigraph.Store(str(tmp_path / "store"))
    store.bulk_load(path=str(wikidata_file))
    store.flush()
    del store
    assert facts(load_graph(tmp_path / "store")) == facts(wikidata_graph)
    with pytest.raises(InputError, match="none in which pyoxigraph keeps a store"):
        load_graph(tmp_path)


def test_statements_are_facts_with_their_years(tmp_path: Path) -> None:
    path = write(
        tmp_path / "g.nt",
        f"<{_E}s> <{RDF}subject> <{_E}a>",
        f"<{_E}s> <{RDF}predicate> <{_E}p>",
        f"<{_E}s> <{RDF}object> <{_E}b>",
        f'<{_E}s> <{_E}start> "1950"^^<{XSD}gYear>',
        f'<{_E}s> <{_E}endDate> "1960-05-02"^^<{XSD}date>',
        f"<{_E}a> <{_E}p> <{_E}c>",
    )
    graph = load_graph(path)
    a, b, c = (_E + name for name in "abc")
    found = graph.facts[_E + "p"]
    assert found.by_subject == {a: (b, c)}
    assert found.by_value == {b: (a,), c: (a,)}
    assert found.dated[a] == (Span(b, 1950, 1960),)
    assert graph.links[a] == {b, c}
    assert [graph.are_linked(x, y) for x, y in ((a, b), (b, a), (b, c), (a, a))] == [
        True,
        True,
        False,
        False,
    ]


def test_qualifiers_of_wikidata_are_read_and_deprecated_statements_make_a_subject_doubtful(
    tmp_path: Path,
) -> None:
    prop = f"{WD}prop/"
    lines = [
        f"{entity('Q1')} <{prop}P39> <{_E}s1>",
        f"<{_E}s1> <{prop}statement/P39> {entity('Q7')}",
        f'<{_E}s1> <{prop}qualifier/P580> "+1951-00-00T00:00:00Z"^^<{XSD}dateTime>',
        f'<{_E}s1> <{prop}qualifier/P1545> "3"',
        f"<{_E}s1> <{prop}reference/P248> {entity('Q99')}",
        f"{entity('Q1')} <{prop}direct/P39> {entity('Q7')}",
        f"{entity('Q2')} <{prop}P39> <{_E}s2>",
        f"<{_E}s2> <{prop}statement/P39> {entity('Q7')}",
        f"<{_E}s2> <{WIKIBASE}rank> <{WIKIBASE}DeprecatedRank>",
        f"{entity('Q3')} <{prop}P39> <{_E}s3>",
    ]
    graph = load_graph(write(tmp_path / "g.nt", *lines))
    found = graph.facts[WD + "entity/P39"]
    one, two, three, seven = (f"{WD}entity/Q{n}" for n in (1, 2, 3, 7))
    assert found.by_subject == {one: (seven,)}
    assert found.dated[one] == (Span(seven, 1951, None),)
    assert found.doubtful == {two, three}


def test_a_label_is_taken_by_language_then_variant_then_none_then_fallback(tmp_path: Path) -> None:
    label = f"<{RDFS}label>"
    path = write(
        tmp_path / "g.nt",
        f'<{_E}a> {label} "fr"@fr',
        f'<{_E}a> {label} "bare"',
        f'<{_E}a> {label} "hant"@zh-hant',
        f'<{_E}a> {label} "zh"@zh',
        f'<{_E}b> {label} "fr"@fr',
        f'<{_E}b> {label} "bare"',
        f'<{_E}b> {label} "hant"@zh-hant',
        f'<{_E}c> {label} "fr"@fr',
        f'<{_E}c> {label} "many"@mul',
        f'<{_E}d> {label} "fr"@fr',
        f'<{_E}d> {label} "de"@de',
        f'<{_E}e> {label} "de"@de',
        f'<{_E}f> {label} "it"@it',
    )
    graph = load_graph(path, languages=("zh",), fallback=("de", "fr"))
    named = {at.removeprefix(_E): name for at, name in graph.labels["zh"].items()}
    assert named == {"a": "zh", "b": "hant", "c": "many", "d": "de", "e": "de"}


_NODES = st.integers(0, 6)


@pytest.mark.slow
@given(st.lists(st.tuples(_NODES, st.integers(0, 2), _NODES), max_size=30), st.randoms())
def test_look_ups_are_those_of_the_triples_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, triples: list[tuple[int, int, int]], rng: object
) -> None:
    folder = tmp_path_factory.mktemp("g")
    lines = [f"<{_E}n{s}> <{_E}p{p}> <{_E}n{o}>" for s, p, o in triples]
    first = load_graph(write(folder / "one.nt", *lines))
    rng.shuffle(lines)  # type: ignore[attr-defined]
    second = load_graph(write(folder / "two.nt", *lines))
    assert first.facts == second.facts
    for prop, found in first.facts.items():
        known = {(f"{_E}n{s}", f"{_E}n{o}") for s, p, o in triples if prop == f"{_E}p{p}"}
        assert list(found.pairs) == sorted(known)
        assert {(s, o) for s, values in found.by_subject.items() for o in values} == known
        assert {(s, o) for o, holders in found.by_value.items() for s in holders} == known


_ENTITIES = """<?xml version="1.0"?>
<!DOCTYPE rdf:RDF [{padding}<!ATTLIST r a CDATA "<b">
  <!ENTITY a "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description rdf:about="http://example.org/x"><rdf:value>&b;</rdf:value></rdf:Description>
</rdf:RDF>
"""


@pytest.mark.parametrize("ending", ["rdf", "xml", "owl", "rdf.gz"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("padding", ["", "<!-- x -->", "<!ELEMENT r ANY>" * 80_000])
def test_xml_that_declares_entities_is_rejected_before_it_is_parsed(
    tmp_path: Path, ending: str, encoding: str, padding: str
) -> None:
    raw = _ENTITIES.replace("{padding}", padding).encode(encoding)
    path = tmp_path / f"bomb.{ending}"
    path.write_bytes(gzip.compress(raw) if ending.endswith("gz") else raw)

    with pytest.raises(InputError, match="declares XML entities"):
        load_graph(path)


def test_a_packed_file_that_grows_out_of_proportion_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from knowgate.offline_eval.data.graph import loading as _loading

    monkeypatch.setattr(_loading, "_UNPACKED_BYTES", 10_000)
    path = tmp_path / "bomb.nt.gz"
    path.write_bytes(gzip.compress(b"# " + b"x" * 10_000_000))

    with pytest.raises(InputError, match="cannot be read"):
        load_graph(path)
