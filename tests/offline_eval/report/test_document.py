"""One document with every kind of block, in every format."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from matplotlib.figure import Figure as Canvas

from knowgate.calibration import Interval
from knowgate.guard import InputError
from knowgate.offline_eval.report.document import Check, Document, Prose, Section
from knowgate.offline_eval.report.layout import Page as Layout
from knowgate.offline_eval.report.plots import Colour, Plot
from knowgate.offline_eval.report.prose import Templates, explained
from knowgate.offline_eval.report.tables import Cell, Line, Table
from knowgate.offline_eval.report.text import percent
from knowgate.offline_eval.report.writing import ReportWriter
from knowgate.offline_eval.run.manifest import InputFile
from tests.support.report_page import Page

EVIL = "<script>alert(1)</script> | **b** [x](javascript:y) `c` \u202eabc \x00\n# head {{ 7 * 7 }}"


def _draw(figure: Canvas) -> None:
    figure.subplots().plot([0], color=Colour.BLUE)


def document(text: str = "plain", **changes: object) -> Document:
    """A document that shows `text` wherever a text can stand."""
    rate = Interval(0.75, 0.301, 0.954, 4)
    plot = Plot("rates", text, text, _draw, (3, 2))
    table = Table(
        text,
        (text, "b"),
        (Line(text, (Cell(text, text, "best"), Cell(text, mark="text")), mark="chosen"),),
        caption=text,
        notes=(text, (text, text)),
    )
    sections = (
        Section("Results", (Table.of_figures([(text, rate, text, percent)]),)),
        Section(text, (text, Prose((text, (text, text)), "item"), table, plot)),
        Section("Folded", (Section(text, (text,), folded=True),)),
        Section("Facts", (Prose(((text, text),), "fact"), Prose(explained("best"), "small"))),
        Section.of_run({text: {"b": text}}, [InputFile(name=text, sha256=text)], text),
    )
    values = {
        "name": "toy",
        "title": text,
        "subtitle": text,
        "headline": [text, text],
        "warnings": [text],
        "sections": sections,
        "values": {"rate": rate.to_dict()},
        "rows": lambda: [("id", "ok"), (text, True), ("=1+1", None)],
        "checks": lambda: [Check("toy", text, text, text)],
        **changes,
    }
    return Document(**values)  # type: ignore[arg-type]


def test_every_block_stands_in_page_and_markdown(tmp_path: Path) -> None:
    paths = ReportWriter(tmp_path).write(document())

    page = Page(paths.html.read_text(encoding="utf-8"))
    text = paths.markdown.read_text(encoding="utf-8").replace("\u00a0", " ")
    assert {"svg", "table", "details", "ul"} <= page.tags
    assert len(page.ids) == len(set(page.ids))
    assert "| plain | 75 % | 30 % to 95 % | 4 | plain |" in text
    assert "| plain ◀ | plain ★ (plain) | plain |" in text
    for shown in (page.text, text):
        assert "30 % to 95 %" in shown.replace("\u00a0", " ")
        assert "★ is the best number of its column." in shown
        assert "plain.b" in shown
        assert "knowgate " in shown


@pytest.mark.usefixtures("whole_plots")
def test_text_cannot_become_markup_anywhere(tmp_path: Path) -> None:
    paths = ReportWriter(tmp_path).write(document(EVIL))

    page = Page(paths.html.read_text(encoding="utf-8"))
    assert "script" not in page.tags
    assert not page.handlers
    assert not [reference for reference in page.references if not reference.startswith("#")]
    assert page.text.count("<script>alert(1)</script>") > 20
    markdown = paths.markdown.read_text(encoding="utf-8")
    for shown in (page.text, markdown):
        assert "\u202e" not in shown
        assert "\x00" not in shown
        assert "{{ 7" in shown
    assert "<script" not in markdown
    assert "\n# head" not in markdown
    assert "[x](" not in markdown.replace("\\[x\\](", "")


def test_a_spreadsheet_runs_no_formula(tmp_path: Path) -> None:
    paths = ReportWriter(tmp_path, ["csv"]).write(document())

    with paths.csv.open(newline="", encoding="utf-8") as stream:
        assert list(csv.reader(stream)) == [["id", "ok"], ["plain", "yes"], ["'=1+1", ""]]


def test_the_best_of_a_column_is_marked_unless_all_are_equal() -> None:
    rates = [Interval(value, None, None, 3) for value in (0.2, 0.8, None)]

    assert [cell.mark for cell in Cell.column(rates, better=1)] == ["", "best", ""]
    assert [cell.mark for cell in Cell.column(rates, better=-1)] == ["best", "", ""]
    assert [cell.mark for cell in Cell.column(rates)] == ["", "", ""]
    assert [cell.mark for cell in Cell.column(rates[:1] * 2, better=1)] == ["", ""]


@pytest.mark.parametrize(
    ("low", "high", "better", "mark"),
    [
        (0.1, 0.2, 0, "clear"),
        (-0.2, -0.1, 0, "clear"),
        (-0.2, -0.1, 1, ""),
        (0.1, 0.2, -1, ""),
        (-0.1, 0.2, 0, ""),
    ],
)
def test_a_difference_is_marked_where_its_interval_excludes_zero(
    low: float, high: float, better: int, mark: str
) -> None:
    cell = Cell.difference(Interval((low + high) / 2, low, high, 9), better=better)
    assert cell.mark == mark


def test_a_printed_command_names_a_folder_as_it_is(tmp_path: Path) -> None:
    template = (
        "{% macro next(run) %}\nnext:\n  report {{ run|shell }} →\n{{ run|path }}\n{% endmacro %}"
    )
    (tmp_path / "said.txt").write_text(template, "utf-8")

    said = Templates(tmp_path / "said.txt").text("next", Path("two  blanks"))

    assert said == "next: report 'two  blanks' → two  blanks"


TEMPLATE = """
{% macro sections(page, lines, said) %}
<folded> Results

{{ said }}

{{ page.table("System", lines, [("Rate", "of.rate", "", 1), ("Cost", "c?", ".2f"), ("", "x?")]) }}

<under> A note

<part> Within

<fact> name :: {{ said }}

<end>

<small best>

<section> Nothing to show

{{ page.table("System", {}, [("Rate", "of.rate")]) }}
{% endmacro %}
"""


def test_a_template_lays_sections_out_and_inserted_text_makes_no_tag(tmp_path: Path) -> None:
    (tmp_path / "report.txt").write_text(TEMPLATE)
    lines = {
        "one": {"of": {"rate": Interval(0.5)}, "c": 0.123},
        "two": {"of": {"rate": Interval(1)}},
    }
    said = "<section> & more\n\n<item> of it"
    [found] = Layout(Templates(tmp_path / "report.txt")).sections("sections", lines, said)
    text, table, within, small = found.blocks
    assert (found.folded, text) == (True, "<section> & more <item> of it")
    assert isinstance(table, Table)
    assert (table.columns, table.notes) == (("Rate", "Cost"), ("A note",))
    cells = [("50\u00a0%", "", "0.12"), ("100\u00a0%", "best", "–")]
    assert [
        (one.value, one.mark, cost.value) for one, cost in (n.cells for n in table.lines)
    ] == cells
    assert within == Section("Within", (Prose((("name", str(text)),), "fact"),))
    assert small == Prose(("★ is the best number of its column.",), "small")


def test_what_stands_in_a_title_stays_text(tmp_path: Path) -> None:
    (tmp_path / "report.txt").write_text(
        "{% macro of(page, said) %}\n<section> {{ said }}\n\n<part> {{ said }}\n\nText\n\n"
        "<fact> Nothing :: {{ said[9:] }}\n{% endmacro %}"
    )
    [found] = Layout(Templates(tmp_path / "report.txt")).sections("of", "a :: \ue000")
    assert found == Section("a :: \ue000", (Section("a :: \ue000", ("Text", Prose((), "fact"))),))


def test_a_section_with_a_text_in_place_of_its_blocks_is_refused() -> None:
    with pytest.raises(InputError, match=r"Longest: blocks are a text .* comma"):
        Section("Longest", "five questions")  # type: ignore[arg-type]
