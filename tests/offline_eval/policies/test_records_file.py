from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import Leak
from knowgate.calibration.risk.fit import Cascade
from knowgate.guard import Fingerprint, InputError
from knowgate.guard.files import atomic_writer
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.offline_eval.policies import calibrate_records
from knowgate.offline_eval.policies.records import CalibrationSet
from knowgate.offline_eval.policies.records_file import read_records
from tests.offline_eval.policies.measured import ESTIMATOR, SCORER, record_lines

LINE: dict[str, Any] = {
    "question_id": "q1",
    "relevance": 3.5,
    "confidence": None,
    "context_right": True,
    "closed_book_right": None,
}


def written(folder: Path, *lines: object, name: str = "records.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_optional_fields_and_extra_ones(tmp_path: Path) -> None:
    line = LINE | {
        "question_id": 7, "group": "doc", "conflict": False, "weight": 2, "case": "random",
        "nothing_retrieved": True, "note": [1],
    }  # fmt: skip

    found = read_records(written(tmp_path, line)).records[0]

    assert found == CalibrationRecord("7", 3.5, None, True, None, "doc", False, 2.0, "random", True)


def test_the_first_line_may_say_what_measured_them(tmp_path: Path) -> None:
    header = {
        "scorer": SCORER.model_dump(),
        "estimator": ESTIMATOR.model_dump(),
        "aggregator": "noisy_or",
        "population": "our tickets",
    }

    found = read_records(written(tmp_path, header, LINE))

    assert (found.scorer, found.estimator) == (SCORER, ESTIMATOR)
    assert (found.aggregator, found.population, len(found.records)) == (
        "noisy_or",
        "our tickets",
        1,
    )


_VALUES = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))
_FLAGS = st.sampled_from([None, True, False])
_LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
_CASES = st.builds(
    CalibrationRecord,
    question_id=st.text(_LETTERS, min_size=1),
    relevance=_VALUES,
    confidence=_VALUES,
    context_right=_FLAGS,
    closed_book_right=_FLAGS,
    conflict=_FLAGS,
    weight=st.floats(0.001, 1e6),
    case=st.sampled_from(["", "in_kb", "ü\u2028"]),
    nothing_retrieved=st.booleans(),
)  # fmt: skip


@given(st.lists(_CASES, min_size=1, max_size=5, unique_by=lambda c: (c.question_id, c.case)))
def test_what_is_written_reads_back_the_same(
    tmp_path_factory: pytest.TempPathFactory, cases: list[CalibrationRecord]
) -> None:
    path = tmp_path_factory.mktemp("r") / "records.jsonl"
    measured = CalibrationSet(tuple(cases), str(path), SCORER, ESTIMATOR, "noisy_or", "theirs")

    with atomic_writer(path) as stream:
        for line in record_lines(measured):
            stream.write(json.dumps(line, ensure_ascii=False) + "\n")

    assert read_records(path) == measured


class _Tuned(LexicalScorer):
    """Says that it was tuned on questions about the library."""

    def tuned_on(self, question: str) -> bool:
        return "library" in question


ASKED = [
    LINE | {"question_id": 1, "question": "When does the library open?"},
    LINE | {"question_id": "b", "question": "When does the museum open?"},
]
TUNED = Fingerprint(kind="sufficiency", settings={"mix_sha256": "0" * 64})


def test_questions_that_the_scorer_was_tuned_on_are_found_and_rejected(tmp_path: Path) -> None:
    found = read_records(written(tmp_path, *ASKED), _Tuned())
    assert found.tuned_on == ("1",)
    with pytest.raises(InputError, match="the scorer was tuned on 1 of its 2 questions"):
        calibrate_records(found, Leak(0.1), delta=0.1)
    assert read_records(written(tmp_path, ASKED[1]), _Tuned()).tuned_on == ()
    # Before what else is wrong with them.
    worse = replace(found, cascade=Cascade(costly=TUNED), scorer=SCORER, aggregator="other")
    with pytest.raises(InputError, match="was tuned on 1"):
        calibrate_records(worse, Leak(0.1), delta=0.1)
    assert read_records(written(tmp_path, *ASKED), LexicalScorer()).tuned_on == ()


def test_records_of_a_tuned_scorer_must_say_what_it_was_tuned_on(tmp_path: Path) -> None:
    header = {"scorer": TUNED.model_dump()}
    cascade = Fingerprint(kind="cascade", stages=(TUNED, SCORER)).model_dump()
    for other in ({"scorer": cascade}, {"costly_scorer": TUNED.model_dump()}):
        assert read_records(written(tmp_path, other, *ASKED)).tuned_on is None
    unknown = read_records(written(tmp_path, header, *ASKED))
    assert unknown.tuned_on is None
    with pytest.raises(InputError, match="nothing says whether it was tuned on") as error:
        calibrate_records(unknown, Leak(0.1), delta=0.1)
    assert "--scorer DIR" in error.value.hint
    for stated in ([], ["1"]):
        path = written(tmp_path, {**header, "tuned_on": stated}, *ASKED)
        assert read_records(path).tuned_on == tuple(stated)
    with pytest.raises(InputError, match="field 'tuned_on'"):
        read_records(written(tmp_path, {**header, "tuned_on": "1"}, *ASKED))
