"""Reading the suite's data sets."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard import InputError
from knowgate.offline_eval.data.formats import reading_comprehension
from knowgate.offline_eval.data.formats.reading_comprehension import documents, tidy
from knowgate.offline_eval.suites.uniknow._questions import read_dataset


def _lines(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


HEADER = {"header": {"dataset": "SQuAD", "split": "dev"}}
MRQA_LINE: dict[str, Any] = {
    "id": "c1",
    "context": "Ada Lovelace wrote the first program in 1843.",
    "qas": [
        {
            "qid": "a",
            "question": "Who wrote the first program?",
            "answers": ["Lovelace"],
            "detected_answers": [{"text": "Ada Lovelace", "char_spans": [[0, 11]]}],
        },
        {"id": "b", "question": "When?", "answers": ["1843"]},
    ],
}


def test_mrqa_lines_give_questions_with_listed_and_detected_answers(tmp_path: Path) -> None:
    dataset = read_dataset(_lines(tmp_path / "SQuAD.jsonl", HEADER, MRQA_LINE))

    assert dataset.name == "SQuAD"
    first, second = dataset.questions
    assert (first.id, first.answers) == ("a", ("Lovelace", "Ada Lovelace"))
    assert (second.id, second.answers) == ("b", ("1843",))
    assert first.group == second.group
    assert first.sources == ("Ada Lovelace wrote the first program in 1843.",)


def test_a_packed_file_reads_the_same_whatever_its_name(tmp_path: Path) -> None:
    plain = _lines(tmp_path / "x.jsonl", HEADER, MRQA_LINE)
    packed = tmp_path / "x.dat"
    packed.write_bytes(gzip.compress(plain.read_bytes()))

    assert [q.id for q in read_dataset(packed).questions] == ["a", "b"]


def test_a_packed_file_that_grows_out_of_all_proportion_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_comprehension, "_MOST_UNPACKED", 100_000)
    packed = tmp_path / "x.jsonl.gz"
    packed.write_bytes(gzip.compress(b" " * 200_000))
    assert packed.stat().st_size < 1000

    with pytest.raises(InputError, match="grows beyond 100,000 bytes"):
        read_dataset(packed)


def test_markers_and_tags_are_taken_out_of_contexts() -> None:
    hotpot = "[PAR] [TLE] Rome [SEP] It is old . [PAR] [TLE] Oslo [SEP] It is cold ."
    trivia = "[DOC] [TLE] A page [PAR] One. [PAR] Two. [DOC] [TLE] Next [PAR] Three."

    assert documents(hotpot) == ("Rome. It is old.", "Oslo. It is cold.")
    assert documents(trivia) == ("A page. One. Two.", "Next. Three.")
    assert tidy("<P> The `` Nile '' is long ( very ) . </P> <Table> x < y") == (
        'The " Nile " is long (very). x < y'
    )


def test_one_question_in_several_paragraphs_merges_sources_and_groups(tmp_path: Path) -> None:
    rows = [
        {"question": "Who?", "answers": ["Ada"], "context": "Ada did.", "group": "x"},
        {"question": "who? ", "answer": "ada", "context": "It was Ada.", "group": "y"},
        {"question": "Why?", "answer": "fun", "context": "For fun.", "group": "y"},
        {"question": "Who?", "answers": ["Bob"], "context": "Bob did.", "group": "z"},
    ]

    merged, other, apart = read_dataset(_lines(tmp_path / "p.jsonl", *rows)).questions

    assert merged.sources == ("Ada did.", "It was Ada.")
    assert merged.answers == ("Ada", "ada")
    assert merged.group == other.group == "x"
    assert (apart.answers, apart.group) == (("Bob",), "z")


def test_squad_style_json_groups_by_article(tmp_path: Path) -> None:
    def article(name: str) -> dict[str, Any]:
        answers = [{"text": name, "answer_start": 0}]
        qas = [
            {"id": f"{name}1", "question": f"Who is {name}?", "answers": answers},
            {"id": f"{name}2", "question": "?", "answers": [], "is_impossible": True},
        ]
        return {"paragraphs": [{"context": f"{name} is.", "qas": qas}]}

    path = tmp_path / "s.json"
    path.write_text(json.dumps({"data": [article("Ada"), article("Bob")]}), encoding="utf-8")

    questions = read_dataset(path).questions

    assert [q.id for q in questions] == ["Ada1", "Bob1"]
    assert questions[0].group != questions[1].group


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["question", "answers", "context", "qas", "data", "paragraphs", "id"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(content=st.binary(max_size=200) | st.lists(_JSON, max_size=4))
def test_junk_gives_a_clear_error_or_a_data_set(
    tmp_path_factory: pytest.TempPathFactory, content: bytes | list[Any]
) -> None:
    path = tmp_path_factory.mktemp("junk") / "x"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text("\n".join(map(json.dumps, content)), encoding="utf-8")
    try:
        dataset = read_dataset(path)
    except InputError:
        return
    assert dataset.questions
    assert len({q.id for q in dataset.questions}) == len(dataset.questions)


def test_a_limit_draws_the_same_questions_in_their_order(tmp_path: Path) -> None:
    rows = [{"id": i, "question": f"Number {i}?", "answer": str(i)} for i in range(30)]
    path = _lines(tmp_path / "n.jsonl", *rows)

    drawn = [q.id for q in read_dataset(path, limit=7, seed=3).questions]

    assert drawn == [q.id for q in read_dataset(path, limit=7, seed=3).questions]
    assert drawn == sorted(drawn, key=int)
    assert len(drawn) == 7
    assert drawn != [q.id for q in read_dataset(path, limit=7, seed=4).questions]


def test_an_empty_answer_in_an_mrqa_file_leaves_out_its_question_alone(tmp_path: Path) -> None:
    empty = {"qid": "e", "question": "What?", "answers": [""], "detected_answers": []}
    line = MRQA_LINE | {"qas": [empty, *MRQA_LINE["qas"]]}

    dataset = read_dataset(_lines(tmp_path / "SQuAD.jsonl", HEADER, line))

    assert [question.id for question in dataset.questions] == ["a", "b"]
