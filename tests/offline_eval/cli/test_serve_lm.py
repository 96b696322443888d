"""`knowgate serve-lm`: what it is started with."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.offline_eval.cli.commands import Knowgate

pytestmark = pytest.mark.enable_socket


@pytest.mark.parametrize("allowed", [False, True])
async def test_the_embedded_model_is_served_on_this_machine_only(
    knowgate: Knowgate, monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    served: dict[str, Any] = {}

    def serve(app: Any, listening: Any) -> None:
        served.update(app=app, address=listening.getsockname())

    monkeypatch.setattr("knowgate.adapters.serve._server.serve", serve)
    monkeypatch.delenv("KNOWGATE_TOKEN", raising=False)

    done = knowgate(
        "serve-lm", "--port", "0", "--name", "tiny", *(["--allow-faults"] if allowed else [])
    )

    assert done.code == 0, done
    host, port = served["address"]
    assert done.out == f"serving tiny on http://127.0.0.1:{port}/v1\n"
    assert host == "127.0.0.1"
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Who?"}]}
    fault = {"X-Knowgate-Fault": "empty"}
    transport = httpx.ASGITransport(app=served["app"])
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        models = (await client.get("/v1/models")).json()
        faulty = await client.post("/v1/chat/completions", json=body, headers=fault)
    assert [one["id"] for one in models["data"]] == ["tiny"]
    assert faulty.status_code == (200 if allowed else 400)


def test_other_machines_need_a_token(knowgate: Knowgate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KNOWGATE_TOKEN", raising=False)

    done = knowgate("serve-lm", "--host", "0.0.0.0", "--port", "0")

    assert done.code == 2
    assert "KNOWGATE_TOKEN" in done.err
