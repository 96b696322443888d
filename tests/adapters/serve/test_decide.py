"""Decisions and scores over HTTP, as the service's own description says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings

from knowgate.guard import Guard
from knowgate.guard.testing import FakeScorer
from tests.adapters.serve.service import BAD, GOOD, Model, client_of, make_app, make_guard

ASKED = {"question": "When do you open?", "passages": [BAD, GOOD]}


@pytest.fixture(scope="module")
def plain() -> FastAPI:
    """An application without options; making one takes a while."""
    return make_app()


async def test_a_decision_over_http_is_that_of_the_guard() -> None:
    guard = make_guard()
    async with client_of(make_app(guard)) as client:
        found = await client.post("/v1/decide", json=ASKED)

    expected = guard.decide("When do you open?", [BAD, GOOD]).model_dump(mode="json")
    assert found.status_code == 200
    body = found.json()
    assert body["reply"] is None
    assert body["calibrated"] == "false"
    assert body["decision"] | {"timings": None} == expected | {"timings": None}


async def test_a_batch_is_decided_in_order() -> None:
    requests = [{"question": "a", "passages": [BAD]}, {"question": "b", "passages": [GOOD]}]
    async with client_of(make_app()) as client:
        found = (await client.post("/v1/decide/batch", json={"requests": requests})).json()
    routes = [one["decision"]["route"] for one in found["results"]]
    assert routes == ["abstain", "follow_context"]


async def test_scores_are_given_without_a_decision() -> None:
    async with client_of(make_app()) as client:
        found = (await client.post("/v1/score", json=ASKED)).json()
        failing = make_app(make_guard(FakeScorer(default=float("nan"))))
    assert found == {"scores": [0.1, 0.9], "relevance": 0.9, "reason": None}
    async with client_of(failing) as client:
        failed = (await client.post("/v1/score", json=ASKED)).json()
    assert (failed["relevance"], failed["reason"]) == (None, "relevance_failed")


WRONG: dict[str, tuple[Any, int, str | None]] = {
    "no JSON": ("{", 400, None),
    "no UTF-8": (b'{"question": "\xff"}', 400, None),
    "a list": ("[]", 422, None),
    "nested deeply": ("[" * 100_000, 400, None),
    "a number of many digits": ('{"question": ' + "1" * 5_000 + "}", 400, None),
    "no question": ({"passages": []}, 422, "question"),
    "a question that is no text": ({"question": 3}, 422, "question"),
    "passages that are none": ({"question": "q", "passages": [3]}, 422, "passages.0"),
    "an unknown field": ({"question": "q", "secret text": 1}, 422, "secret text"),
    "an unknown field that cannot be encoded": ('{"question": "q", "\\ud800": 1}', 422, None),
    "NaN": ('{"question": NaN}', 422, "question"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_what_is_wrong_is_one_documented_shape(plain: FastAPI, name: str) -> None:
    body, status, param = WRONG[name]
    content = body if isinstance(body, str | bytes) else json.dumps(body)
    async with client_of(plain) as client:
        headers = {"content-type": "application/json"}
        found = await client.post("/v1/decide", content=content, headers=headers)

    assert found.status_code == status
    error = found.json()["error"]
    assert set(error) == {"message", "type", "code", "param"}
    assert error["type"] == "invalid_request_error"
    assert (error["param"] or "").startswith(param or "")


@pytest.mark.parametrize("text", ["a\x00b", "\ud800", "\u202e\u200b", "\x1b[2J"])
async def test_control_characters_are_decided(plain: FastAPI, text: str) -> None:
    body = json.dumps({"question": f"When {text}?", "passages": [f"{GOOD}{text}"]})
    async with client_of(plain) as client:
        headers = {"content-type": "application/json"}
        found = await client.post("/v1/decide", content=body, headers=headers)
    assert found.json()["decision"]["route"] == "follow_context"


async def test_the_endpoints_are_described() -> None:
    async with client_of(make_app()) as client:
        described = (await client.get("/openapi.json")).json()
    assert set(described["paths"]) >= {"/v1/decide", "/v1/score", "/healthz", "/readyz", "/metrics"}
    told = described["paths"]["/v1/decide"]["post"]["responses"]["504"]["description"]
    assert "`signal_timeout`: A signal took longer than its deadline." in told


async def test_a_policy_whose_threshold_costs_chose_is_ready() -> None:
    scorer = FakeScorer({GOOD: 0.9})
    plain = make_guard(scorer).policy
    policy = plain.model_copy(update={"calibration_set_sha256": "0" * 64})
    async with client_of(make_app(Guard(policy, scorer=scorer, metrics=False))) as client:
        ready = await client.get("/readyz")
    assert (ready.status_code, ready.json()["calibrated"]) == (200, "costs")


async def test_a_guard_that_raises_gives_typed_errors() -> None:
    failing = make_guard(FakeScorer(default=float("nan")), on_error="raise")
    async with client_of(make_app(failing)) as client:
        found = await client.post("/v1/decide", json=ASKED)
        batch = await client.post("/v1/decide/batch", json={"requests": [ASKED]})
    assert (found.status_code, found.json()["error"]["code"]) == (502, "signal_failed")
    assert batch.json()["results"][0]["error"]["code"] == "signal_failed"


AUTHORIZATION = {"Authorization": "Bearer " + "t" * 16}
# More of them find nothing new the next time; see `hypothesis` in conftest.py.
_settings = settings(
    max_examples=5,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def operations() -> list[Any]:
    import schemathesis  # a second, which only the process of these tests pays

    app = make_app(make_guard(), Model(), token="t" * 16, retriever=lambda question: [GOOD])
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, headers=AUTHORIZATION)
    found: list[Any] = list(schema.get_all_operations())
    return [one.ok() for one in found]


@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_no_request_gets_a_5xx_or_an_undocumented_response(
    operations: list[Any], mode: str
) -> None:
    from schemathesis import GenerationMode

    statuses = set()
    for operation in operations:
        if mode == "negative" and operation.method == "get":
            continue

        @_settings
        @given(case=operation.as_strategy(generation_mode=GenerationMode(mode)))
        def check(case: Any) -> None:
            response = case.call(headers=AUTHORIZATION)
            statuses.add(response.status_code)
            # No 5xx, only documented statuses, types and shapes, nothing invalid accepted.
            case.validate_response(response)

        check()
    assert len(operations) == 8
    assert statuses <= ({200} if mode == "positive" else {400, 422})
