"""What every request passes: our host, our page, the token, and what goes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from knowgate.offline_eval.web import view_app
from knowgate.offline_eval.web._index import index_runs
from knowgate.offline_eval.web._server import Gate
from tests.offline_eval.web.runs import replies_run

HERE = "http://127.0.0.1:8123"


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Gate:
    index = index_runs([replies_run(tmp_path_factory.mktemp("view") / "run")])
    return Gate(view_app(*index), "secret-token")


@pytest.fixture
def client(gate: Gate) -> TestClient:
    """Somebody who has opened the printed address."""
    found = TestClient(gate, base_url=HERE, follow_redirects=False)
    assert found.get("/?token=secret-token").status_code == 303
    return found


def test_the_token_becomes_a_cookie_and_leaves_the_address(gate: Gate) -> None:
    client = TestClient(gate, base_url=HERE, follow_redirects=False)
    answer = client.get(HERE + "//evil.example/cases?run=run&token=secret-token&text=a%26b")

    assert answer.status_code == 303
    assert answer.headers["location"] == "/evil.example/cases?run=run&text=a%26b"
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert "SameSite=Strict" in answer.headers["set-cookie"]
    assert client.get("/cases?run=run").status_code == 200


@pytest.mark.parametrize("other", ['theme={"a":1}', "a[b]=1", "x", "=", 'q="open', "é=1"])
def test_cookies_of_other_applications_do_not_lock_anyone_out(gate: Gate, other: str) -> None:
    client = TestClient(gate, base_url=HERE, follow_redirects=False)
    cookies: Any = {"cookie": f"{other}; knowgate-8123=secret-token; {other}".encode()}

    assert client.get("/cases?run=run", headers=cookies).status_code == 200


@pytest.mark.parametrize("address", ["/", "/?token=wrong", "/static/pages.js", "/cases?token="])
def test_without_the_token_there_is_nothing(gate: Gate, address: str) -> None:
    answer = TestClient(gate, base_url=HERE, follow_redirects=False).get(address)

    assert answer.status_code == 403
    assert "command printed" in answer.text


async def test_a_rejected_client_has_sent_its_body_before_the_reply(gate: Gate) -> None:
    seen: list[str] = []

    async def receive() -> dict[str, Any]:
        seen.append("part")
        return {"type": "http.request", "body": b"{}", "more_body": len(seen) < 3}

    async def send(message: Any) -> None:
        seen.append(str(message.get("status", "end")))

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "query_string": b""}
    await gate(scope, receive, send)

    assert seen == ["part", "part", "part", "403", "end"]


def test_the_token_of_a_request_that_changes_something_is_not_taken_from_the_address(
    gate: Gate,
) -> None:
    client = TestClient(gate, base_url=HERE, follow_redirects=False)

    assert client.post("/?token=secret-token", json={}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:80"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_other_pages_cannot_read(client: TestClient, headers: dict[str, str]) -> None:
    assert client.get("/cases?run=run", headers=headers).status_code == 403


def test_no_script_but_our_own_files_can_run(client: TestClient) -> None:
    answer = client.get("/cases?run=run")
    policy = answer.headers["content-security-policy"]

    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "<style" not in answer.text
    assert 'style="' not in answer.text
    assert answer.text.count("<script") == answer.text.count('<script src="/static/')
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert client.get("/static/pages.js").headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize("name", ["nothing.js", "__init__.py", "..%2f_gate.py"])
def test_only_the_files_of_the_pages_are_served(client: TestClient, name: str) -> None:
    assert client.get(f"/static/{name}").status_code == 404


def test_what_is_not_there_is_said_on_a_page_or_as_json(client: TestClient) -> None:
    as_page = client.get("/nothing", headers={"Accept": "text/html"})

    assert as_page.status_code == 404
    assert "no such page" in as_page.text
    assert "text/html" in as_page.headers["content-type"]
    assert client.get("/nothing").json() == {"error": "no such page"}
    assert client.post("/cases", json={}).status_code == 405


def test_a_fault_of_ours_is_told_without_texts(
    gate: Gate, client: TestClient, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def fail(*_given: object) -> None:
        raise ValueError("what a user wrote")

    monkeypatch.setattr("knowgate.offline_eval.web._index.CaseQuery.selects", fail)
    answer = client.get("/cases?run=run&text=private")

    assert answer.status_code == 500
    assert "ValueError in test_gate.py:" in caplog.text
    assert "wrote" not in caplog.text + answer.text
    assert "private" not in caplog.text


def test_a_run_folder_is_not_changed(tmp_path: Path) -> None:
    folder = replies_run(tmp_path / "run", questions=1)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    client = TestClient(Gate(view_app(*index_runs([folder])), "t"), base_url=HERE)
    assert client.get("/?token=t").status_code == 200
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
