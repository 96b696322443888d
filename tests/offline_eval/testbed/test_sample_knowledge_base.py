from __future__ import annotations

import json
import re
from collections import defaultdict

import pytest

from knowgate.offline_eval.testbed import sample_knowledge_base_path

NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
# A number with the word after it, such as "5.80 crowns": what a reader takes for a value.
QUANTITY = re.compile(r"(\d+(?:[.,:]\d+)*) ([A-Za-z]+)")


@pytest.fixture(scope="module")
def records() -> list[dict[str, str]]:
    text = sample_knowledge_base_path().read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_a_title_names_one_article_with_one_to_three_questions(
    records: list[dict[str, str]],
) -> None:
    passages: dict[str, list[str]] = defaultdict(list)
    for record in records:
        passages[record["source"]].append(record["passage"])

    assert len({record["passage"] for record in records}) == len(passages)
    for texts in passages.values():
        assert len(set(texts)) == 1
        assert 1 <= len(texts) <= 3


def test_every_number_in_an_answer_occurs_in_its_passage(records: list[dict[str, str]]) -> None:
    for record in records:
        missing = set(NUMBER.findall(record["answer"])) - set(NUMBER.findall(record["passage"]))

        assert not missing, record["id"]


def test_a_quantity_in_an_answer_occurs_in_no_other_article(records: list[dict[str, str]]) -> None:
    titles: dict[tuple[str, str], set[str]] = defaultdict(set)
    for record in records:
        for quantity in QUANTITY.findall(record["passage"]):
            titles[quantity].add(record["source"])

    for record in records:
        for quantity in QUANTITY.findall(record["answer"]):
            assert titles[quantity] <= {record["source"]}, record["id"]


def test_no_question_appears_in_a_passage(records: list[dict[str, str]]) -> None:
    passages = {record["passage"].casefold() for record in records}

    for record in records:
        stem = record["question"].casefold().rstrip("?")
        assert not any(stem in passage for passage in passages), record["id"]


def test_no_question_gives_away_the_numbers_of_its_answer(records: list[dict[str, str]]) -> None:
    for record in records:
        given = set(NUMBER.findall(record["question"])) & set(NUMBER.findall(record["answer"]))

        assert not given, record["id"]
