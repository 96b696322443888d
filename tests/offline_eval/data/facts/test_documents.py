"""Reading documents: every format, and everything that is none."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PdfReader, PdfWriter

from knowgate.offline_eval.data.facts._blocks import DocumentError, ReadDocument, TextKind
from knowgate.offline_eval.data.facts._documents import find_documents, read_content


def pdf_bytes(pages: Sequence[Sequence[str]]) -> bytes:
    """A PDF with one line of text below the other on each page."""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    kids = []
    for lines in pages:
        shown = " ".join(f"({line}) Tj T*" for line in lines)
        stream = f"BT /F1 12 Tf 14 TL 72 720 Td {shown} ET".encode("latin-1")
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % len(objects)
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), len(kids))
    return _file(objects)


def _file(objects: Sequence[bytes]) -> bytes:
    content, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        places.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    tail = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
    return content + head + table + tail % (len(objects) + 1, len(content))


def encrypted(raw: bytes, password: str) -> bytes:
    """The same file, to be opened with a password."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(raw)))
    writer.encrypt(password, algorithm="RC4-128")
    found = io.BytesIO()
    writer.write(found)
    return found.getvalue()


PAGE = """<html><head><title>Library</title><style>p {}</style></head><body>
<nav><a href="/">Home</a></nav><header><p>City portal</p></header>
<main><h1>Opening <b>hours</b></h1>
<p>The library opens at 9&nbsp;am.<br>It closes at five.</p><!-- secret -->
<ul><li>One <i>bold</i> item</li><li><p>Two</p></li></ul>
<table><caption>Classes</caption><tr><th>Class</th><th>Age</th></tr>
<tr><td>3A</td><td>18</td></tr></table>
<h2>Is there parking?</h2><p>Yes, <b>20</b> places.</p><p>All are free.</p><h2>Prices</h2>
<dl><dt>What does a card cost?</dt><dd>5 euros.</dd></dl>
<details><summary>May I bring a dog?</summary><p>No.</p></details>
<div class="cookie banner">We use cookies.</div></main><footer>Imprint</footer></body></html>"""


def texts(content: ReadDocument) -> list[str]:
    return [block.text for block in content.blocks]


def pairs(content: ReadDocument) -> list[tuple[str, str]]:
    return [(pair.question, pair.answer) for pair in content.pairs]


def test_a_web_page_gives_its_text_without_menus_and_its_faq_as_pairs() -> None:
    found = read_content(PAGE.encode(), ".html")

    assert texts(found) == [
        "Opening hours",
        "The library opens at 9 am.",
        "It closes at five.",
        "One bold item",
        "Two",
        "Classes",
        "Class: 3A; Age: 18",
        "Prices",
    ]
    assert sorted(pairs(found)) == [
        ("Is there parking?", "Yes, 20 places. All are free."),
        ("May I bring a dog?", "No."),
        ("What does a card cost?", "5 euros."),
    ]
    assert {pair.question: pair.topic for pair in found.pairs}["Is there parking?"] == (
        "Opening hours"
    )
    assert [block.kind for block in found.blocks][3:7] == [
        TextKind.ITEM,
        TextKind.ITEM,
        TextKind.PARAGRAPH,
        TextKind.TABLE_ROW,
    ]


def test_markdown_gives_text_tables_and_faq_headings_without_code() -> None:
    text = (
        "---\ntitle: x\n---\n# Guide\n\nThe library *opens* at 9.\nIt closes at 5.\n\n"
        "```\ncode here\n```\n\n## When is it closed?\n\nOn these days:\n\n- Sundays\n- 1 May\n\n"
        "## More\n\n| Class | Age |\n|---|---|\n| 3A | 18 |\n"
    )

    found = read_content(text.encode(), ".md")

    assert texts(found) == [
        "Guide",
        "The library opens at 9. It closes at 5.",
        "More",
        "Class: 3A; Age: 18",
    ]
    assert pairs(found) == [("When is it closed?", "On these days: Sundays; 1 May")]


def test_plain_text_is_unwrapped_and_its_pairs_taken_out() -> None:
    text = (
        "RULES OF THE ROAD\nStop when the light is\nred. Keep to the two-\nway lane.\n\n"
        "• Be alert\n(b) Be calm\n\n33 These are compulsory\nsigns.\n\n12\n\n"
        "Q: May I park\nhere?\nA: Only on\nSundays.\n\nQ2. And there?\nAnswer: Never.\n"
    )

    found = read_content(text.encode(), ".txt")

    assert texts(found) == [
        "RULES OF THE ROAD",
        "Stop when the light is red. Keep to the two-way lane.",
        "Be alert",
        "Be calm",
        "These are compulsory signs.",
        "12",
    ]
    assert [block.boilerplate for block in found.blocks] == [False] * 5 + [True]
    assert {block.topic for block in found.blocks} == {"RULES OF THE ROAD"}
    assert pairs(found) == [("May I park here?", "Only on Sundays."), ("And there?", "Never.")]


def test_a_pdf_gives_the_text_of_its_pages_without_what_repeats_at_their_margins() -> None:
    pages = [["City handbook", f"Rule {n} is about lanes.", f"Page {n} of 4"] for n in range(1, 5)]

    found = read_content(pdf_bytes(pages), ".pdf")

    assert texts(found) == [f"Rule {n} is about lanes." for n in range(1, 5)]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (".csv", 'Question,Answer,Topic\nWho?,"Me, you",people\n', [("Who?", "Me, you")]),
        (".tsv", "q\ta\nWho?\tMe\n", [("Who?", "Me")]),
        (".csv", "Frage;answer;question\nx;Me;Who?\n", [("Who?", "Me")]),
        (".json", '{"faq": [{"question": "Who?", "answer": "Me"}]}', [("Who?", "Me")]),
        (".json", '[{"Q": "Who?", "A": ["Me", "You"]}]', [("Who?", "Me")]),
        (".jsonl", '{"question": "Who?", "answer": "Me"}\n', [("Who?", "Me")]),
    ],
)
def test_tables_and_records_with_question_and_answer_are_pairs(
    name: str, content: str, expected: list[tuple[str, str]]
) -> None:
    assert pairs(read_content(content.encode(), name)) == expected


@pytest.mark.parametrize(
    ("suffix", "raw", "type_"),
    [
        (".txt", b" \n\t", "empty"),
        (".txt", b"\x89PNG\r\n\x1a\n\x00\x00", "binary"),
        (".txt", "café".encode("latin-1"), "encoding"),
        (".pdf", b"%PDF-1.4 broken", "broken"),
        (".pdf", pdf_bytes([[]]), "empty"),
        (".pdf", encrypted(pdf_bytes([["Secret."]]), "word"), "encrypted"),
        (".html", b"<html><body><nav>Home</nav></body></html>", "empty"),
        (".md", b"```\ncode\n```\n", "empty"),
        (".json", b"{broken", "broken"),
        (".json", b'{"a": 1}', "no_questions"),
        (".jsonl", b"[]\n", "no_questions"),
        (".csv", b"question,answer\n", "empty"),
    ],
)
def test_what_gives_no_text_is_a_typed_failure(suffix: str, raw: bytes, type_: str) -> None:
    with pytest.raises(DocumentError) as refused:
        read_content(raw, suffix)

    assert refused.value.type == type_


def test_deeply_nested_pages_are_read() -> None:
    raw = b"<div>" * 3_000 + b"<p>Deep down.</p>" + b"</div>" * 3_000

    assert texts(read_content(raw, ".html")) == ["Deep down."]


@given(st.binary(max_size=300), st.sampled_from([".txt", ".md", ".html", ".pdf", ".csv", ".json"]))
def test_no_bytes_raise_anything_but_a_document_error(raw: bytes, suffix: str) -> None:
    try:
        found = read_content(raw, suffix)
    except DocumentError:
        return
    assert found.blocks or found.pairs


def test_documents_are_found_in_folders_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "docs" / "sub").mkdir(parents=True)
    for name in ("b.txt", "a.md", "sub/c.html", ".hidden.txt"):
        (tmp_path / "docs" / name).write_text("Text.")
    (tmp_path / "b.txt").write_text("Other.")

    found = find_documents([tmp_path / "docs", tmp_path / "b.txt", tmp_path / "docs" / "a.md"])

    assert [name for name, _ in found] == [
        "a.md",
        "docs/b.txt",
        "sub/c.html",
        f"{tmp_path.name}/b.txt",
    ]


@pytest.mark.parametrize(
    ("limit", "most", "detail"),
    [
        ("_MOST_PAGES", 2, "more than 2 pages"),
        ("_MOST_OBJECTS", 5, "objects, more than 5"),
        ("_MOST_CHARACTERS", 20, "more than 20 characters"),
    ],
)
def test_a_pdf_beyond_a_limit_is_too_large(
    monkeypatch: pytest.MonkeyPatch, limit: str, most: int, detail: str
) -> None:
    from knowgate.offline_eval.data.facts import _documents

    raw = pdf_bytes([["A page with some words."], ["Another page."], ["A third page."]])
    monkeypatch.setattr(_documents, limit, most)

    with pytest.raises(DocumentError) as caught:
        read_content(raw, ".pdf")

    assert caught.value.type == "too_large"
    assert detail in caught.value.detail
