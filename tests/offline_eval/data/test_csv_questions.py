"""Question files in CSV: as spreadsheets write them, and one clear line for each fault."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowgate.guard import InputError
from knowgate.offline_eval.data.diversity import filter_questions_file
from knowgate.offline_eval.data.diversity.filter import (
    DiversitySettings,
)
from knowgate.offline_eval.data.questions import QuestionRecord

_EXPECTED = [
    QuestionRecord("a", "Who?", "Ann; or Bob, or both."),
    QuestionRecord("b", 'When is "soon"?', "At nine,\nor later.", source="plan.pdf"),
]
_COMMAS = (
    "id,Question,Answer,Source\n"
    'a,Who?,"Ann; or Bob, or both.",\n'
    'b,"When is ""soon""?","At nine,\nor later.",plan.pdf\n'
)


def _with(delimiter: str) -> str:
    rows = list(csv.reader(io.StringIO(_COMMAS)))
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter).writerows(rows)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("kb.csv", _COMMAS),
        ("kb.csv", "\ufeff" + _with(";")),
        ("kb.CSV", "sep=;\r\n" + _with(";")),
        ("kb.tsv", _with("\t")),
        ("kb.csv", "\n" + _COMMAS.replace("\nb,", "\n,,,\n\nb,")),
        ("kb.csv", _COMMAS.replace("id,Question", " Question ID ,QUESTION")),
        ("kb.csv", _COMMAS.replace("Source\n", "Source,,\n").replace('both.",\n', 'both."\n')),
    ],
    ids=["commas", "Excel", "sep line", "tabs", "blank rows", "spelling", "ragged"],
)
def test_every_form_of_csv_gives_the_same_questions(
    tmp_path: Path, name: str, content: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode())

    assert QuestionRecord.read(path) == _EXPECTED


_CELLS = st.text(st.sampled_from('ab;,\t"\n é'), min_size=1, max_size=6).filter(str.strip)


@settings(
    derandomize=True,
    deadline=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(st.tuples(_CELLS, _CELLS, st.none() | _CELLS), min_size=2, max_size=4),
    st.sampled_from(",;\t"),
    st.booleans(),
)
def test_what_a_spreadsheet_writes_is_read_as_it_was(
    tmp_path: Path, rows: list[tuple[str, str, str | None]], delimiter: str, marked: bool
) -> None:
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter)
    writer.writerow(["question", "answer", "topic"])
    writer.writerows([["" if cell is None else cell for cell in row] for row in rows])
    path = tmp_path / "kb.csv"
    path.write_bytes((("\ufeff" if marked else "") + buffer.getvalue()).encode())

    records = QuestionRecord.read(path)

    assert [(one.question, one.answer, one.topic) for one in records] == rows


def test_filtered_questions_are_lines_with_the_columns_of_the_file(tmp_path: Path) -> None:
    path, out = tmp_path / "kb.csv", tmp_path / "kept.jsonl"
    path.write_bytes(
        "\ufeffQuestion;Answer;Owner\r\nWho?;Ann;x\r\nwho?;Ann;y\r\nWhen?;Now;z\r\n".encode()
    )
    settings_ = DiversitySettings(keyword="off", semantic="off")

    filter_questions_file(path, out, tmp_path / "dropped.jsonl", None, settings_)

    assert [json.loads(line) for line in out.open()] == [
        {"id": "q1", "question": "Who?", "answer": "Ann", "owner": "x"},
        {"id": "q3", "question": "When?", "answer": "Now", "owner": "z"},
    ]
    for target, words in ((path, "three files"), (tmp_path / "kept.csv", "no table")):
        with pytest.raises(InputError, match=words):
            filter_questions_file(path, target, tmp_path / "dropped.jsonl", None, settings_)
    assert path.read_text("utf-8").startswith("\ufeffQuestion;Answer")
