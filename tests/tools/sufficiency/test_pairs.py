"""Reading labelled pairs."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

from knowgate.calibration.training.cases import TrainingQuestion
from knowgate.guard.signals.relevance.match_model import FEATURES
from tools.sufficiency.fit_mix import feature_probe
from tools.sufficiency.pairs import read_pairs


def _row(qid: str, passage: str, label: int, **more: Any) -> dict[str, Any]:
    return {
        "qid": qid, "group": "g", "source": "s", "question": f"{qid}?", "passage": passage,
        "label": label, "lang": "en", **more,
    }  # fmt: skip


def _write(path: Path, rows: list[Any]) -> Path:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if path.suffix == ".xz":
        with lzma.open(path, "wt", encoding="utf-8") as stream:
            stream.write(text)
    else:
        path.write_text(text, encoding="utf-8")
    return path


def test_a_question_takes_its_passage_and_what_does_not_suffice(tmp_path: Path) -> None:
    rows = [
        _row("a", "yes", 1, answer="y"), _row("a", "no", 0), _row("b", "never", 0),
        _row("a", "nor this", 0), _row("c", "ja", 1, lang="de"),
    ]  # fmt: skip
    [found] = read_pairs([_write(tmp_path / "pairs.jsonl", rows)])
    assert found == TrainingQuestion("a", "a?", "yes", "g", "s", "y", ("no", "nor this"))


def test_each_sufficient_passage_gives_a_question_that_knows_of_the_others(tmp_path: Path) -> None:
    rows = [_row("a", "one", 1), _row("a", "two", 1), _row("a", "no", 0)]
    found = read_pairs([_write(tmp_path / "pairs.jsonl.xz", rows)])
    assert [(q.passage, q.others, q.negatives) for q in found] == [
        ("one", ("two",), ("no",)),
        ("two", ("one",), ("no",)),
    ]


def test_several_files_are_one_set_and_another_language_can_be_asked_for(tmp_path: Path) -> None:
    one = _write(tmp_path / "1.jsonl", [_row("a", "ja", 1, lang="de"), _row("b", "b", 1)])
    two = _write(tmp_path / "2.jsonl", [_row("a", "nein", 0, lang="de")])
    [found] = read_pairs([one, two], language="de")
    assert (found.passage, found.negatives) == ("ja", ("nein",))


def test_a_probe_has_all_features_and_says_nothing() -> None:
    probe = feature_probe(0.06)
    assert probe.features == FEATURES
    assert probe.joint_score([[1.0] * 4, [0.5] * 4], [2.0] * 4) == 0.0
