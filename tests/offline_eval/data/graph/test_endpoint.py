"""Graphs behind a SPARQL endpoint: a real server on the loopback interface."""

from __future__ import annotations

from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from time import sleep
from typing import Any

import pyoxigraph
import pytest

from knowgate.guard import InputError
from knowgate.offline_eval.data.graph.endpoint import EndpointSettings, SparqlClient, SparqlError
from knowgate.offline_eval.data.graph.generation import generate_questions
from knowgate.offline_eval.data.graph.graph import KnowledgeGraph
from knowgate.offline_eval.data.graph.loading import load_graph
from knowgate.offline_eval.data.graph.properties import GenerationSettings, PropertyRules
from tests.offline_eval.data.graph.endpoint_server import (
    Endpoint,
    always,
    first,
    often_down,
    send,
    serving,
)
from tests.support.deadlines import with_enough_time

pytestmark = pytest.mark.enable_socket

_COUNT = "SELECT (COUNT(*) AS ?n) WHERE { ?s ?p ?o }"
_KEPT = ("P19", "P39", "P57", "P161", "P569", "P1082")


def quick(**values: object) -> EndpointSettings:
    given = {"pause": 0.0, "first_wait": 0.01, "timeout": 10.0, "deadline": 60.0, **values}
    return EndpointSettings(**given)


def store_of(triples: str) -> pyoxigraph.Store:
    store = pyoxigraph.Store()
    store.load(triples, pyoxigraph.RdfFormat.N_TRIPLES)
    return store


@pytest.fixture(scope="module")
def wikidata_store(wikidata_triples: str) -> pyoxigraph.Store:
    return store_of(wikidata_triples)


@pytest.mark.slow
def test_an_endpoint_that_pages_and_fails_gives_the_questions_of_the_file(
    wikidata_store: pyoxigraph.Store, wikidata_graph: KnowledgeGraph
) -> None:
    endpoint = Endpoint(wikidata_store, most_rows=30, fault=often_down(0.3))
    with serving(endpoint):
        graph = load_graph(
            endpoint.url,
            languages=("en", "zh"),
            properties=_KEPT,
            endpoint=quick(max_attempts=12, page_size=100, user_agent="tests (me@example.org)"),
        )
    assert endpoint.faults > 5
    assert set(endpoint.agents) == {"tests (me@example.org)"}
    settings = GenerationSettings(
        languages=("en", "zh"), per_type=30, rules=PropertyRules(include=_KEPT)
    )
    found, expected = (generate_questions(one, settings) for one in (graph, wikidata_graph))
    # The file's graph has more links, by properties that were not fetched: the same facts.
    assert {profile.iri: profile.facts for profile in found.profiles} == {
        profile.iri: profile.facts
        for profile in expected.profiles
        if profile.iri.rsplit("/")[-1] in _KEPT
    }
    assert len(found.data.items) == len(expected.data.items)
    assert {item.question for item in found.data.items} == {
        item.question for item in expected.data.items
    }


def test_of_a_property_that_is_cut_off_every_subject_has_all_its_values(
    wikidata_store: pyoxigraph.Store, wikidata_graph: KnowledgeGraph
) -> None:
    with serving(Endpoint(wikidata_store)) as endpoint:
        graph = load_graph(
            endpoint.url, properties=("P161",), endpoint=quick(page_size=10, most_facts=25)
        )
    ((prop, part),) = graph.facts.items()
    assert 5 < len(part.pairs) < 25
    for subject, values in part.by_subject.items():
        assert values == wikidata_graph.facts[prop].by_subject[subject]


def test_too_many_requests_are_waited_out_as_long_as_the_server_says(
    wikidata_store: pyoxigraph.Store,
) -> None:
    endpoint = Endpoint(wikidata_store, fault=first(1, always(429, Retry_After="1")))
    with serving(endpoint), SparqlClient(endpoint.url, quick()) as client:
        client.select(_COUNT, ("n",))
    assert endpoint.started[1] - endpoint.started[0] >= 1.0


_NO_ROW = b'{"head":{"vars":["n"]},"results":{"bindings":[{"n":{}}]}}'


@pytest.mark.parametrize(
    ("fault", "settings", "word", "asked"),
    [
        # Refusals, and a wait beyond the deadline: asked once.
        (always(400, b"secret text"), {}, "not understood", 1),
        (always(403, b"secret text"), {}, "not allowed", 1),
        (always(404), {}, "no such address", 1),
        (always(302), {}, "moved", 1),
        (always(503, Retry_After="3600"), {}, "status 503", 1),
        (always(500), {"max_attempts": 3}, "status 500", 3),
        (None, {"max_bytes": 100}, "100 bytes", 1),
        (always(200, b"<html>"), {"max_attempts": 2}, "cut off", 2),
        (always(200, b""), {"max_attempts": 2}, "cut off", 2),
        (always(200, _NO_ROW), {"max_attempts": 2}, "cut off", 2),
    ],
)
def test_an_endpoint_that_does_not_answer_as_it_should_is_an_error(
    wikidata_store: pyoxigraph.Store, fault: Any, settings: dict[str, int], word: str, asked: int
) -> None:
    endpoint = Endpoint(wikidata_store, fault=fault)
    with (
        serving(endpoint),
        SparqlClient(endpoint.url, quick(**settings)) as client,
        pytest.raises(SparqlError, match=word) as raised,
    ):
        client.select("SELECT ?s WHERE { ?s ?p ?o }", ("s",))
    assert "secret" not in str(raised.value)
    assert len(endpoint.queries) == asked


def test_a_name_that_no_header_can_hold_is_refused() -> None:
    with pytest.raises(InputError, match="ASCII"):
        quick(user_agent="Jürgen")


def test_an_answer_that_trickles_in_is_given_up(wikidata_store: pyoxigraph.Store) -> None:
    def trickle(_endpoint: Endpoint, handler: BaseHTTPRequestHandler) -> bool:
        with suppress(ConnectionError):
            handler.send_response(200)
            handler.send_header("Content-Length", "6000")
            handler.end_headers()
            for _ in range(6000):
                handler.wfile.write(b" ")
                sleep(0.02)
        return True

    def check(seconds: float) -> None:
        with (
            serving(Endpoint(wikidata_store, fault=trickle)) as endpoint,
            SparqlClient(endpoint.url, quick(timeout=seconds, max_attempts=1)) as client,
            pytest.raises(SparqlError, match="does not end in time"),
        ):
            client.select(_COUNT, ("n",))

    with_enough_time(check)


def test_the_deadline_holds_for_everything(wikidata_store: pyoxigraph.Store) -> None:
    def check(seconds: float) -> None:
        with (
            serving(Endpoint(wikidata_store)) as endpoint,
            SparqlClient(endpoint.url, quick(deadline=seconds)) as client,
        ):
            client.select(_COUNT, ("n",))
            sleep(seconds)
            with pytest.raises(SparqlError, match=rf"not done within {seconds:g} s"):
                client.select(_COUNT, ("n",))
        assert len(endpoint.queries) == 1

    with_enough_time(check)


def test_names_from_an_endpoint_cannot_change_a_query() -> None:
    """An IRI with characters that no query may hold is left out of the look-up of names."""
    line = (
        '{"head":{"vars":["s","o"]},"results":{"bindings":[{"s":{"type":"uri",'
        '"value":"http://x/a> } DROP ALL #"},"o":{"type":"uri","value":"http://x/b"}}]}}'
    )

    def hostile(endpoint: Endpoint, handler: BaseHTTPRequestHandler) -> bool:
        if "FILTER(isIRI(?s))" in endpoint.queries[-1] and "OFFSET 0" in endpoint.queries[-1]:
            send(handler, 200, line.encode())
            return True
        return False

    # The parser may refuse such an IRI, too.
    with serving(Endpoint(pyoxigraph.Store(), fault=hostile)) as endpoint, suppress(SparqlError):
        load_graph(endpoint.url, properties=("http://x/p",), endpoint=quick(max_attempts=1))
    assert not any("DROP" in query for query in endpoint.queries)
