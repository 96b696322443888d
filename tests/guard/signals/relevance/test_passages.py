"""Passages encoded ahead of time: the same scores, and nothing encoded for a request."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from knowgate.adapters.langchain import GuardedRAG
from knowgate.guard import Guard, Policy
from knowgate.guard.engine.encoder import TokenEncoder
from knowgate.guard.signals.relevance import index_passages, load_scorer

QUESTION = "How many books may I borrow?"
PASSAGES = [
    "Readers borrow up to twelve books for four weeks.",
    "The pool opens at six on weekdays and at eight on Sundays.",
    "Can I renew? Yes, twice, unless somebody waits for the book.",
    "Dogs are registered within two weeks. " * 90,
]


@pytest.fixture(scope="module")
def plain() -> Any:
    return load_scorer("sufficiency", device="cpu")


@pytest.fixture(scope="module")
def folder(plain: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index") / "passages"
    report = index_passages([*PASSAGES, "  "], folder, plain)
    assert (report.read, report.encoded, report.stored) == (4, 5, 5)  # one without its question
    assert report.bytes == sum(path.stat().st_size for path in folder.iterdir())
    return folder


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are encoded."""
    texts: list[str] = []
    encode_pre = TokenEncoder.encode_pre

    def noting(self: TokenEncoder, given: list[str], *rest: Any) -> Any:
        texts.extend(given)
        return encode_pre(self, given, *rest)

    monkeypatch.setattr(TokenEncoder, "encode_pre", noting)
    return texts


def _loaded(folder: Path, name: str = "sufficiency") -> Any:
    return load_scorer(name, device="cpu", passages=str(folder))


def test_scores_of_stored_passages_are_within_the_tolerance_of_a_policy(
    plain: Any, folder: Path, encoded: list[str]
) -> None:
    scorer = _loaded(folder)
    encoded.clear()

    found = scorer.score_set(QUESTION, PASSAGES)

    assert encoded == [QUESTION]
    expected = plain.score_set(QUESTION, PASSAGES)
    assert found.scores == pytest.approx(expected.scores, abs=1e-3)
    assert found.joint == pytest.approx(expected.joint, abs=1e-3)
    assert scorer.fingerprint == plain.fingerprint
    Policy.for_scorer(plain).require_scorer(scorer.fingerprint.probed(scorer))


def test_a_guard_scores_stored_passages_without_encoding_and_encodes_unknown_ones(
    plain: Any, folder: Path, tmp_path: Path, encoded: list[str]
) -> None:
    Policy.for_scorer(plain).save(tmp_path / "policy.json")
    guard = Guard.load(tmp_path / "policy.json", passages=folder, metrics=False)
    encoded.clear()

    documents = [Document(page_content=text) for text in PASSAGES]
    decision = guard.decide(QUESTION, documents)
    assert encoded == [QUESTION]
    assert decision.relevance == guard.decide(QUESTION, PASSAGES).relevance

    def found(_question: str) -> list[Document]:
        return documents

    encoded.clear()
    question = "How long may I keep a book?"
    chain = GuardedRAG(
        guard=guard,
        retriever=RunnableLambda(found),
        with_context=RunnableLambda(lambda _: "from the context"),
    )
    assert chain.invoke(question).decision.scores is not None
    assert encoded == [question]

    encoded.clear()
    other = PASSAGES[0].replace("twelve", "ten")
    guard.decide(QUESTION, [other, *PASSAGES[1:]])
    assert encoded == [other]


def test_a_score_does_not_depend_on_whether_its_passage_is_stored(
    plain: Any, folder: Path, tmp_path: Path
) -> None:
    index_passages(PASSAGES[:1], tmp_path / "one", plain)
    whole = _loaded(folder).score(QUESTION, PASSAGES)
    assert _loaded(tmp_path / "one").score(QUESTION, PASSAGES) == pytest.approx(whole, abs=1e-5)


def test_threads_and_forked_processes_get_the_same_scores(folder: Path) -> None:
    scorer = _loaded(folder)
    expected = scorer.score_set(QUESTION, PASSAGES)
    fresh = _loaded(folder)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: fresh.score_set(QUESTION, PASSAGES), range(8)))
    assert all(one == expected for one in found)

    scorer.encoder.use_passages(folder)  # forgets what is in memory
    scorer.encoder.encode_first([QUESTION])  # the model itself is not used after the fork
    child = os.fork()
    if child == 0:
        os._exit(0 if scorer.score_set(QUESTION, PASSAGES) == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_second_build_encodes_only_what_is_new(
    plain: Any, tmp_path: Path, encoded: list[str]
) -> None:
    index_passages(PASSAGES[:2], tmp_path / "new", plain)
    plain.encoder._cache.forget()
    encoded.clear()

    seen: list[int] = []
    report = index_passages(iter(PASSAGES[:3]), tmp_path / "new", plain, progress=seen.append)
    assert (report.encoded, seen) == (2, [3])
    assert not set(PASSAGES[:2]) & set(encoded)

    encoded.clear()
    assert index_passages(PASSAGES[:3], tmp_path / "new", plain).encoded == 0
    assert encoded == []
