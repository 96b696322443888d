"""The user's own unanswerable questions: measured, promised about, and reported."""

from __future__ import annotations

from pathlib import Path

import pytest
from langchain_core.documents import Document

from knowgate.offline_eval.policies import calibrate_chain
from knowgate.offline_eval.policies.records import CalibrationSet
from knowgate.offline_eval.run.measured_run import MeasuredRun
from knowgate.offline_eval.run.questions import CaseKind
from tests.offline_eval.cli.commands import write_lines

TOPICS = ("train", "tram", "ferry", "plane", "bike", "bus", "canoe", "kayak", "sled", "horse")
ITEMS = ("ticket", "seat", "meal", "bag")
DOCUMENTS = [
    Document(
        f"A {item} on the {topic} costs {3 * i + j} euros.", metadata={"source": f"{topic}.md"}
    )
    for i, topic in enumerate(TOPICS)
    for j, item in enumerate(ITEMS)
]
QUESTIONS = [
    {
        "id": f"{topic}-{item}",
        "question": f"How many euros costs a {item} on the {topic}?",
        "source": f"{topic}.md",
    }
    for topic in TOPICS
    for item in ITEMS
]
UNANSWERABLE = [
    {"question": f"May a {animal} sleep {place}?", "topic": animal, "note": "no page on animals"}
    for animal in ("dog", "cat", "parrot", "snake", "goat", "hamster", "pony", "rat", "newt", "hen")
    for place in ("on board", "near the door", "below deck")
]


def search(question: str, k: int = 4) -> list[Document]:
    """Rank the documents by shared words; ties keep their order."""
    words = set(question.lower().replace("?", "").split())

    def shared(one: Document) -> int:
        return -len(words & set(one.page_content.lower().replace(".", "").split()))

    return sorted(DOCUMENTS, key=shared)[:k]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unanswerable")
    calibrate_chain(
        search,
        write_lines(folder / "q.jsonl", QUESTIONS),
        out=folder / "run",
        settings={
            "scorer": "lexical",
            "unanswerable": write_lines(folder / "u.jsonl", UNANSWERABLE),
        },
    )
    return folder / "run"


def test_each_is_asked_once_through_the_chain_as_it_is(run: Path) -> None:
    measured = MeasuredRun.read(run)
    rows = [row for row in measured.rows if row.kind is CaseKind.UNANSWERABLE]

    assert len(rows) == len(UNANSWERABLE)
    assert len(measured.rows) == 2 * len(QUESTIONS) + len(UNANSWERABLE)
    assert all(len(row.retrieved) == 4 and not row.retrieval_miss for row in rows)
    assert measured.questions["u1"].topic == "dog"
    assert [file.name for file in measured.manifest.inputs] == ["q.jsonl", "u.jsonl"]


def test_the_promise_is_about_them_by_default_and_the_left_out_cases_stand_beside(
    run: Path,
) -> None:
    measured = CalibrationSet.of_run(run)

    own, left_out, both = (measured.about(m) for m in (None, "left_out", "both"))

    assert own.missing == "unanswerable"
    assert {record.case for record in own.records} == {"in_kb", "unanswerable"}
    assert {record.case for record in own.beside} == {"left_out"}
    assert {record.case for record in left_out.beside} == {"unanswerable"}
    assert not both.beside
    # Questions on one animal go alike: they are one piece of evidence.
    assert len({r.unit for r in own.records if r.case == "unanswerable"}) == 10
