"""Questions by rewriting rules, on sentences and headings as documentation has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.offline_eval.data.facts import build_questions
from knowgate.offline_eval.data.facts._rewriting import asked_by_heading, rewritten
from knowgate.offline_eval.data.questions import QuestionRecord
from tests.offline_eval.cli.commands import read_lines


@pytest.mark.parametrize(
    ("sentence", "question", "answer"),
    [
        (
            "To run the application, use the flask command or python -m flask.",
            "How do I run the application?",
            "use the flask command or python -m flask",
        ),
        (
            "Use the route() decorator to bind a function to a URL.",
            "How do I bind a function to a URL?",
            "Use the route() decorator",
        ),
        (
            "You can change the temporary directory by setting the TEMP environment variable.",
            "How do I change the temporary directory?",
            "by setting the TEMP environment variable",
        ),
        (
            "The Photos application lets you view your pictures in a list.",
            "How do I view my pictures in a list?",
            "The Photos application",
        ),
        (
            "If you lose your key, the repository cannot be read any more.",
            "What if I lose my key?",
            "the repository cannot be read any more",
        ),
        (
            "The timestamp field is used to avoid logical replay attacks.",
            "What is the timestamp field used for?",
            "to avoid logical replay attacks",
        ),
        (
            "Codecs are a way to read a video or audio format.",
            "What are codecs?",
            "a way to read a video or audio format",
        ),
    ],
)
def test_a_sentence_becomes_a_question(sentence: str, question: str, answer: str) -> None:
    assert rewritten(sentence, {"codecs"}) == (question, answer)


def test_a_sentence_that_leans_on_others_or_tells_nothing_does_not() -> None:
    for sentence in [
        "Below is a template for your own needs.",
        "Here is an example cache function.",
        "Since g is a single namespace.",
        "The first argument is the name of the module.",
        "A common example is a URL to an external resource.",
        "The answer is a bit complicated.",
        "The method is called to handle each request.",
        "The extends tag is the key here.",
        "To do this, run the command again.",
        "To some extent, mounting a backup may help you.",
        "To download files will sometimes provide access, use FTP.",
        "If so, you may need a compiler for it.",
        "If the file is a program, such as a script, you must run it.",
    ]:
        assert rewritten(sentence) is None


@pytest.mark.parametrize(
    ("heading", "question"),
    [
        ("Installing from source", "How do I install from source?"),
        ("8.1.2. Configuring the Secret Key¶", "How do I configure the secret key?"),
        ("Change your timezone", "How do I change my timezone?"),
        ("Running with a Production Server", "How do I run with a production server?"),
        ("Turn off wireless (airplane mode)", "How do I turn off wireless (airplane mode)?"),
        ("How to rename a file", "How do I rename a file?"),
        ("Where to store your backup", "Where do I store my backup?"),
        ("Archive formats", None),
        ("Logging and monitoring", None),
        ("Compaction", None),
        ("Examples", None),
        ("How do I rename a file?", None),
        ("Other event loops", None),
        ("String theory", None),
    ],
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
