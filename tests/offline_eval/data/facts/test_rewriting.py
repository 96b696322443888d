"""Questions by rewriting rules, on sentences and headings as documentation has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.offline_eval.data.facts import build_questions
from knowgate.offline_eval.data.facts._rewriting import asked_by_heading, rewritten
from knowgate.offline_eval.data.questions import QuestionRecord
from tests.offline_eval.cli.commands import read_lines
from tests.support.tables import table


@pytest.mark.parametrize(
    ("sentence", "question", "answer"),
    table(__file__, "a sentence becomes a question"),
)
def test_a_sentence_becomes_a_question(sentence: str, question: str, answer: str) -> None:
    assert rewritten(sentence, {"codecs"}) == (question, answer)


def test_a_sentence_that_leans_on_others_or_tells_nothing_does_not() -> None:
    for sentence in table(__file__, "a sentence that leans on others or tells nothing does not"):
        assert rewritten(sentence) is None


@pytest.mark.parametrize(
    ("heading", "question"),
    table(__file__, "a heading that names a deed asks for it"),
)
def test_a_heading_that_names_a_deed_asks_for_it(heading: str, question: str | None) -> None:
    assert asked_by_heading(heading) == question


SECTION = (
    "Ensure to install the dependencies of the program before you begin with it. "
    "Fetch the archive of the latest release and unpack it into a folder of your own. "
    "Then the build script compiles all of the parts."
)


def test_a_section_answers_its_heading_where_it_is_long_enough(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        f"# Manual\n\n## Installing from source\n\n{SECTION}\n\n"
        "## Removing the program\n\nDelete its folder.\n\n"
        "## Fees\n\nThe fee for a licence of one year must be $70.\n",
        encoding="utf-8",
    )

    build_questions([tmp_path / "a.md"], tmp_path / "kb")

    asked = {one.question: one for one in QuestionRecord.read(tmp_path / "kb" / "questions.jsonl")}
    row = asked["How do I install from source?"]
    assert row.answer == SECTION.split(" Then", maxsplit=1)[0]
    assert row.passage is not None
    assert row.answer in row.passage
    assert row.made_by == "rules"
    assert "How do I remove the program?" not in asked
    assert "fees" not in " ".join(asked).lower()
    (fact,) = [
        one
        for one in read_lines(tmp_path / "kb" / "facts.jsonl")
        if one["fact_id"] == row.question_id
    ]
    assert len(fact["citations"]) == 2
