"""Whatever is sent, the service answers as its own description says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.adapters.serve.service import GOOD, Model, make_app, make_guard

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
    assert len(operations) == 9
    assert statuses <= ({200} if mode == "positive" else {400, 422})
