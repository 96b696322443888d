"""The playground: a reply comes piece by piece, without struck passages; a case is saved."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableGenerator, RunnableLambda
from starlette.testclient import TestClient

from knowgate.adapters.langchain import GuardedRAG
from knowgate.guard import Guard, Policy
from knowgate.guard.testing import FakeScorer
from knowgate.offline_eval.data.questions import QuestionRecord
from knowgate.offline_eval.web import Playground, play_app

TEXTS = ("The pool opens at nine.", "Dogs stay out <b>.")


async def words(given: AsyncIterator[dict[str, Any]]) -> AsyncIterator[str]:
    async for one in given:
        for word in str(one["context"]).split(" "):
            yield word


def chain_of(retrieve: Any = None) -> GuardedRAG:
    scorer = FakeScorer({"nine": 0.9})
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
    found = [Document(text, metadata={"source": f"s  {n}"}) for n, text in enumerate(TEXTS)]
    return GuardedRAG(
        guard=Guard(policy, scorer=scorer, metrics=False),
        retriever=RunnableLambda(retrieve or (lambda _question: found)),
        with_context=RunnableGenerator(words),
    )


def client_of(chain: GuardedRAG, path: Path) -> TestClient:
    return TestClient(play_app(Playground(chain, "t", path)), base_url="http://127.0.0.1")


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    return client_of(chain_of(), tmp_path / "saved.jsonl")


def ask(client: TestClient, question: str = "When?", struck: tuple[int, ...] = ()) -> list[Any]:
    answer = client.post("/ask", json={"question": question, "struck": list(struck)})
    assert answer.status_code == 200
    return [json.loads(line) for line in answer.text.splitlines()]


def test_a_question_is_answered_piece_by_piece(client: TestClient) -> None:
    passages, decision, *rest = ask(client)

    assert [one["text"] for one in passages["passages"]] == list(TEXTS)
    assert (decision["route"], decision["reason"]) == ("follow_context", "sufficient_context")
    assert decision["signals"][0] == {"name": "relevance", "value": 0.9, "threshold": 0.5}
    assert rest[-1] == {"event": "end"}
    assert len(rest) > 5  # the reply came in pieces
    assert TEXTS[0] in "".join(f"{one.get('text', '')} " for one in rest)


def test_a_struck_passage_changes_the_decision(client: TestClient) -> None:
    ask(client)
    passages, decision, reply, _ = ask(client, struck=(0,))

    assert len(passages["passages"]) == 2
    assert decision["route"] == "abstain"
    assert list(decision["scores"]) == ["1"]
    assert reply["event"] == "text"
    assert ask(client, struck=(0, 1))[1]["route"] == "abstain"


def test_passages_are_retrieved_for_a_new_question_alone(tmp_path: Path) -> None:
    asked: list[str] = []

    def retrieve(question: str) -> list[Document]:
        asked.append(question)
        return [Document(f"nine {len(asked)}")]

    client = client_of(chain_of(retrieve), tmp_path / "saved.jsonl")
    events = [client.post("/ask", json={"question": "When?"}).text, ask(client, struck=(0,))]
    again = ask(client, struck=())
    assert asked == ["When?"]
    assert again[0]["passages"] == [{"text": "nine 1", "source": ""}]
    assert again[1]["route"] == "follow_context"
    assert "nine 1" in events[0]
    assert client.post("/ask", json={"question": "When?"}).text.count("nine 2")


def test_an_error_of_the_chain_is_told_by_its_type_alone(tmp_path: Path) -> None:
    def fail(_question: str) -> list[Document]:
        raise ValueError("key=secret")

    (event,) = ask(client_of(chain_of(fail), tmp_path / "saved.jsonl"))

    assert event == {"event": "error", "message": "the chain raised ValueError"}


def test_a_case_is_saved_as_measure_reads_it(client: TestClient, tmp_path: Path) -> None:
    for question, passage in (("When?", 0), ("Dogs?", None)):
        ask(client, question)
        body = {"question": question, "answer": " At nine. ", "passage": passage}
        assert client.post("/save", json=body).status_code == 200
        assert client.post("/save", json=body).status_code == 409

    first, second = QuestionRecord.read(tmp_path / "saved.jsonl")
    assert (first.question, first.answer, first.passage, first.source) == (
        "When?",
        "At nine.",
        TEXTS[0],
        "s  0",
    )
    assert (second.question, second.passage) == ("Dogs?", None)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/ask", {"question": " "}, 400),
        ("/ask", {"question": 7}, 400),
        ("/ask", {"question": "x", "struck": ["y"]}, 400),
        ("/ask", {"question": "x" * 20_001}, 400),
        ("/save", {"question": "x", "answer": ""}, 400),
        ("/save", {"question": "never asked", "answer": "y", "passage": 0}, 404),
        ("/words", {"question": "never asked"}, 404),
    ],
)
def test_what_is_not_understood_is_rejected_without_repeating_it(
    client: TestClient, tmp_path: Path, path: str, body: dict[str, Any], status: int
) -> None:
    answer = client.post(path, json=body)

    assert answer.status_code == status
    assert set(answer.json()) == {"error"}
    assert "x" * 100 not in answer.text
    assert not (tmp_path / "saved.jsonl").exists()


@pytest.mark.parametrize("answer", ["  ", "\u0000"])
def test_a_case_without_an_answer_is_not_saved(tmp_path: Path, answer: str) -> None:
    client = client_of(chain_of(), tmp_path / "saved.jsonl")
    found = client.post("/save", json={"question": "When?", "answer": answer})
    assert (found.status_code, found.json()) == (400, {"error": "type the question and its answer"})
    assert not (tmp_path / "saved.jsonl").exists()
