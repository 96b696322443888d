"""`kg generate` and an endpoint that is hostile: the cheap part of the attack, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from knowgate.offline_eval.data.graph.endpoint import EndpointSettings, SparqlError
from knowgate.offline_eval.data.graph.loading import load_graph
from tools.attack.endpoints import HostileEndpoint, answers

_SETTINGS = EndpointSettings(pause=0, deadline=600, max_attempts=1, max_bytes=2**22)


@pytest.fixture
def endpoint(socket_enabled: None) -> Iterator[HostileEndpoint]:
    found = HostileEndpoint()
    yield found
    found.close()


def _load(endpoint: HostileEndpoint, answer: str) -> None:
    endpoint.answer = answers(endpoint.private)[answer]
    settings = replace(_SETTINGS, timeout=0.5 if "endless" in answer or "drip" in answer else 60)
    load_graph(endpoint.url, languages=("en",), endpoint=settings)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("redirect 307 to another port", "status 307"),
        ("packed once", "more than 4,194,304 bytes"),
        ("packed twice", "packed otherwise than by gzip"),
        ("an endless body", "more than 4,194,304 bytes|does not end in time|no answer within"),
        ("headers that drip", "no answer within"),
        ("rows of triples", "in which .p is a triple"),
        ("entities in XML that says it is JSON", "is not SPARQL's JSON"),
    ],
)
def test_a_hostile_answer_is_one_error(endpoint: HostileEndpoint, answer: str, said: str) -> None:
    with pytest.raises(SparqlError, match=said):
        _load(endpoint, answer)
    assert endpoint.asked == 0
