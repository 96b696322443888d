"""`benchmarks/policybench.py` and its parts, which are scripts and no package."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from knowgate.calibration import Interval
from knowgate.guard import Fingerprint, Policy
from knowgate.guard.testing import FakeScorer
from knowgate.offline_eval.data.questions import PassageKind
from tests.support.paths import BENCHMARKS

PARTS = ("logs", "rates", "guard", "measures", "transfer")
MODULES = ("policybench", *(f"policybench_{part}" for part in PARTS))
QUESTIONS = {
    "T_0": ("when does the pool open", "The pool opens at nine."),
    "T_1": ("what does a ticket cost", "A ticket costs four coins."),
    "T_2": ("who runs the harbour", "The harbour is run by the guild."),
    "T_3": ("where are bicycles rented", "Bicycles are rented at the gate."),
}


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        found = {name: importlib.import_module(name) for name in MODULES}
        parts = {part: found[f"policybench_{part}"] for part in PARTS}
        yield SimpleNamespace(main=found["policybench"], **parts)
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in MODULES:
            sys.modules.pop(name, None)


def row(name: str, context: list[str] | None, verdict: str, **changes: Any) -> dict[str, Any]:
    question, answer = QUESTIONS[name]
    return {
        "id": name,
        "question": question,
        "expected_answer": answer,
        "context_ids": context,
        "response": "…",
        "citation": "no citation",
        "abstained": "yes" if verdict == "NA" else "no",
        "factuality": verdict,
    } | changes


RAG = [
    row("T_0", ["T_1", "T_2"], "tier_3"),
    row("T_1", ["T_0", "T_2"], "tier_1"),
    row("T_2", ["T_3", "T_0"], "NA"),
    row("T_3", ["T_2", "T_1"], "tier_3"),
]
DIRECT = [row(name, None, "tier_3") for name in QUESTIONS]


def folder_with(tmp_path: Path, **files: list[dict[str, Any]]) -> tuple[Path, Path]:
    """A question document and a folder of runs."""
    document, runs = tmp_path / "T.json", tmp_path / "runs"
    listed = [
        {"identifier": name, "question": question, "answer": answer}
        for name, (question, answer) in QUESTIONS.items()
    ]
    document.write_text(json.dumps({"knowledge_base_identifier": "T", "questions": listed}))
    runs.mkdir()
    for name, rows in files.items():
        (runs / f"{name}.jsonl").write_text("\n".join(json.dumps(one) for one in rows) + "\n")
    return document, runs


class Letters:
    """An encoder: one dimension per letter."""

    fingerprint = Fingerprint(kind="letters")

    def embed(self, texts: Any) -> Any:
        letters = "abcdefghijklmnopqrstuvwxyz"
        counts = [[text.count(one) + 0.01 for one in letters] for text in texts]
        found = np.asarray(counts, dtype=np.float32)
        return found / np.linalg.norm(found, axis=1, keepdims=True)


def policy_of(scorer: Any, threshold: float | None = 0.5, **changes: Any) -> Policy:
    return Policy(scorer=scorer.fingerprint, relevance_threshold=threshold, **changes)


def result_of(bench: Any, tmp_path: Path, scorer: Any, **files: list[dict[str, Any]]) -> Any:
    path, folder = folder_with(tmp_path, **files)
    document = bench.logs.read_document(path, PassageKind.QUESTION_ANSWER)
    runs, _ = bench.logs.read_runs(folder, document)
    judges = bench.guard.Judges(bench.guard.remembering(scorer), Letters())
    asked = bench.guard.Asked(policy_of(scorer), judges, document)
    part = bench.measures.Part(asked, frozenset(document.questions))
    return bench.measures.measured(runs, [part])


# ---- counting


def test_replies_are_counted_without_and_with_the_guard(bench: Any, tmp_path: Path) -> None:
    # Contexts that hold the harbour pass: those of T_0, T_1 and T_3.
    scorer = FakeScorer({"harbour": 0.9}, default=0.1)

    found = result_of(bench, tmp_path, scorer, T_RAG_basic=RAG, T_DIRECT_basic=DIRECT)

    direct, rag = found.runs
    assert (direct.name, direct.has_context) == ("T_DIRECT_basic", False)
    assert direct.figures.unsafe_without == Interval.wilson(4, 4)
    assert direct.figures.unsafe_with == Interval.wilson(0, 4)
    assert direct.figures.stopped == Interval.wilson(4, 4)
    assert direct.false_abstention is None
    assert rag.figures.model_abstained == Interval.wilson(1, 4)
    assert rag.figures.unsafe_without == Interval.wilson(2, 4)
    assert rag.figures.unsafe_with == Interval.wilson(2, 4)
    assert rag.figures.stopped == Interval.wilson(1, 4)
    assert rag.figures.unsafe_stopped == Interval.wilson(0, 2)
    assert rag.figures.right_stopped == Interval.wilson(0, 1)
    # With its source added, each of the four contexts holds the harbour.
    assert rag.false_abstention == Interval.wilson(0, 4)
    assert found.pooled.replies == 8
    assert found.pooled.questions == 4
    assert found.pooled.unsafe_without.value == 6 / 8
    assert found.pooled.unsafe_with.value == 2 / 8
    assert found.pooled_with_context.replies == 4
    assert found.pooled_with_context.unsafe_with.value == 2 / 4


def test_the_guard_decides_on_question_and_answer_of_each_id(bench: Any, tmp_path: Path) -> None:
    path, _ = folder_with(tmp_path)
    document = bench.logs.read_document(path, PassageKind.QUESTION_ANSWER)
    heard: list[tuple[str, str]] = []

    class Listening(FakeScorer):
        def score_pairs(self, pairs: Any) -> Any:
            heard.extend(pairs)
            return super().score_pairs(pairs)

    scorer = Listening(default=0.9)
    judges = bench.guard.Judges(bench.guard.remembering(scorer), Letters())
    asked = bench.guard.Asked(policy_of(scorer), judges, document)

    assert asked.follows([asked.put("T_0", ("T_2", "T_1"))]) == [True]
    assert heard == [
        (QUESTIONS["T_0"][0], "\n".join(QUESTIONS["T_2"])),
        (QUESTIONS["T_0"][0], "\n".join(QUESTIONS["T_1"])),
    ]


def test_a_missed_source_is_no_false_abstention(bench: Any, tmp_path: Path) -> None:
    path, folder = folder_with(tmp_path, T_RAG_basic=RAG)
    document = bench.logs.read_document(path, PassageKind.QUESTION_ANSWER)
    runs, _ = bench.logs.read_runs(folder, document)
    scorer = FakeScorer(default=0.1)

    class Elsewhere(Letters):
        """Finds the first passage for every question."""

        def embed(self, texts: Any) -> Any:
            rows = [
                [float(("pool" in text and "\n" in text) or "\n" not in text)] for text in texts
            ]
            return np.asarray(rows, dtype=np.float32)

    judges = bench.guard.Judges(bench.guard.remembering(scorer), Elsewhere())
    asked = bench.guard.Asked(policy_of(scorer), judges, document, top=1)
    part = bench.measures.Part(asked, frozenset(document.questions))

    found = bench.measures.measured(runs, [part]).retrieved

    assert found.missed == Interval.wilson(3, 4)
    assert found.false_abstention == Interval.wilson(1, 1)


# ---- intervals


def test_the_interval_grows_where_replies_to_one_question_go_together(bench: Any) -> None:
    counted = bench.rates.Counted
    together = [counted(str(n), int(n % 4 == 0)) for n in range(40) for _ in range(9)]
    apart = [counted(str(n), int(n % 4 == 0)) for n in range(360)]

    clustered, independent = bench.rates.clustered(together), bench.rates.clustered(apart)

    assert clustered.value == independent.value == 0.25
    assert clustered.n == independent.n == 360
    width, narrow = clustered.high - clustered.low, independent.high - independent.low
    assert 2.5 < width / narrow < 3.5  # nine replies to a question tell no more than one


def test_the_interval_covers_the_truth_about_as_often_as_it_says(bench: Any) -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        chance = rng.beta(1, 2, size=60)  # mean 1 / 3; replies share their question's chance
        hits = rng.binomial(5, chance)
        found = bench.rates.clustered(
            [
                bench.rates.Counted(str(n), int(k < hit))
                for n, hit in enumerate(hits)
                for k in range(5)
            ]
        )
        covered += found.low <= 1 / 3 <= found.high
    assert covered / 200 >= 0.95 - 3 * (0.05 * 0.95 / 200) ** 0.5


# ---- the public logs


def test_contexts_are_rebuilt_as_the_published_prompts_have_them(
    bench: Any, shared_data: Path
) -> None:
    root = shared_data / "policybench"
    path = root / "questions" / "BTT.json"
    document = bench.logs.read_document(path, PassageKind.QUESTION_ANSWER)
    run = bench.logs.read_run(root / "gpt-4o_runs" / "BTT_BASIC_RAG_conservative.jsonl", document)
    artefact = json.loads((root / "knowornot_artifacts" / "input.json").read_text())
    contexts = {reply.question_id: reply.context for reply in run.replies}

    assert len(artefact["questions"]) == len(contexts) == 55
    for asked in artefact["questions"]:
        found = contexts[asked["source_context_qa"]["identifier"]]
        texts = [document.knowledge_base.passages[name].split("\n", 1) for name in found]
        told = [
            f"Question {at}: {question}\nAnswer {at}: {answer}"
            for at, (question, answer) in enumerate(texts)
        ]
        assert "\n".join(told) in asked["prompt_to_llm"]


def test_the_published_counts_come_out(bench: Any, shared_data: Path) -> None:
    root = shared_data / "policybench"
    counted = {}
    for domain in ("BTT", "CPF"):
        document = bench.logs.read_document(
            root / "questions" / f"{domain}.json", PassageKind.QUESTION_ANSWER
        )
        runs, others = bench.logs.read_runs(root / "gpt-4o_runs", document)
        assert all(run.strangers == run.unjudged == 0 for run in runs)
        assert not any(name.startswith(domain) for name in others)
        for run in runs:
            abstained = sum(reply.abstained for reply in run.replies)
            counted[run.name] = (abstained, sum(reply.right for reply in run.replies))
    assert counted["BTT_DIRECT_basic"] == (0, 28)
    assert counted["BTT_LONG_IN_CONTEXT_basic"] == (19, 13)
    assert counted["BTT_HYDE_RAG_conservative"] == (44, 4)
    assert counted["CPF_DIRECT_basic"] == (3, 23)
    assert counted["CPF_BASIC_RAG_basic"] == (32, 24)
    assert counted["CPF_HYDE_RAG_conservative"] == (56, 13)
