"""The viewer's pages as a browser gets them, without one."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from knowgate.offline_eval.web import view_app
from knowgate.offline_eval.web._index import index_runs
from tests.offline_eval.web.runs import replies_run
from tests.support.report_page import Page


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    folder = tmp_path_factory.mktemp("view")
    replies_run(folder / "run", questions=60)
    replies_run(folder / "sub" / "second", questions=2)
    return TestClient(view_app(*index_runs([folder])), base_url="http://127.0.0.1")


def links(text: str, start: str) -> list[str]:
    found = (unescape(one) for one in re.findall(r'href="([^"]*)"', text))
    return [one for one in found if one.startswith(start)]


def test_runs_are_listed_and_lead_to_their_cases(client: TestClient) -> None:
    page = client.get("/").text

    assert links(page, "/cases?") == ["/cases?run=run", "/cases?run=sub%2Fsecond"]
    assert "8 of 8 rows" in client.get("/cases?run=sub%2Fsecond").text


def test_a_hundred_rows_at_a_time_are_shown_and_filters_stay_in_all_links(
    client: TestClient,
) -> None:
    page = client.get("/cases?run=run&text=pool").text

    assert "240 of 240 rows" in page
    assert len(links(page, "/case?")) == 100
    assert links(page, "/cases?run=run&text=pool&page=2")
    assert all("text=pool" in link for link in links(page, "/case?"))
    last = client.get("/cases?run=run&text=pool&page=99")
    assert str(last.url).endswith("page=3")
    assert len(links(last.text, "/case?")) == 40


def test_hostile_texts_stay_texts(client: TestClient) -> None:
    page = client.get("/case?run=run&key=" + quote("plain/q0/in_kb")).text

    assert "What is <script>alert(1)</script>" in Page(page).text
    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert "\x07" not in page


def test_the_words_that_match_are_found_where_they_stand(client: TestClient) -> None:
    address = "/matches?run=run&key=" + quote("plain/q7/in_kb")
    found = client.get(address).json()
    question, passage = "When does pool 7 open?", "The pool 7 opens at 7. Zebra7."

    met = {question[w["start"] : w["end"]]: w["strength"] for w in found["question"]}
    assert met["pool"] > 0.6
    words = {passage[w["start"] : w["end"]]: w["word"] for w in found["passages"][0]}
    assert words["pool"] == "pool"
    assert words["opens"] == "open"
    assert found["passages"][1] == []


def test_a_sentence_of_a_reply_leads_to_what_carries_it(client: TestClient) -> None:
    found = client.get("/citations?run=run&key=" + quote("guarded/q7/in_kb")).json()
    reply, passage = "It opens at 7. At 14 o'clock.", "The pool 7 opens at 7. Zebra7."

    right, wrong = found["sentences"]
    assert reply[right["start"] : right["end"]] == "It opens at 7."
    assert passage[right["passage_start"] : right["passage_end"]] == "The pool 7 opens at 7."
    assert right["support"] >= found["threshold"] > wrong["support"]
    # Where a passage is not held, nothing can be said to be missing.
    missing = client.get("/citations?run=run&key=" + quote("plain/q7/in_kb"))
    assert missing.status_code == 404
