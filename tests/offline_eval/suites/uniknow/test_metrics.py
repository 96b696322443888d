from __future__ import annotations

import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.calibration import Interval
from knowgate.offline_eval.data.answers.matching import stands_in
from knowgate.offline_eval.suites.uniknow._cases import ContextKind, UniKnowRow
from knowgate.offline_eval.suites.uniknow._metrics import (
    MethodShares,
    Outcome,
    beyond_rates,
    method_values,
    outcome_of,
    paired_difference,
    uniknow_metrics,
)
from tests.offline_eval.suites.uniknow.twenty_cases import (
    CONTEXT,
    TABLE,
    contexts,
    row,
    twenty_rows,
)


def known(interval: Interval) -> tuple[float, float, float]:
    """Value, low and high of an interval that must be defined."""
    assert interval.value is not None
    assert interval.low is not None
    assert interval.high is not None
    return interval.value, interval.low, interval.high


SCORED = ("conflict", "external_only", "parametric_only", "unknown")


def measured(rows: list[UniKnowRow]) -> MethodShares:
    return uniknow_metrics(rows, contexts=contexts(), bootstrap=25)["naive"]


def test_rely_and_its_parts_are_as_worked_out_by_hand_on_twenty_cases() -> None:
    found = measured(twenty_rows())["all"]
    # 19 scored cases: 5 right, 8 wrong, 6 declined.
    assert found.cases == found.questions == 19
    assert found["acc"].value == pytest.approx(5 / 19)
    assert found["truth"].value == pytest.approx(11 / 19)
    assert found["ans"].value == pytest.approx(13 / 19)
    assert found["rely"].value == pytest.approx(173 / 361)


def test_scenarios_are_as_worked_out_by_hand_on_twenty_cases() -> None:
    found = measured(twenty_rows())
    assert {name: found[name]["em"].value for name in SCORED} == {
        "conflict": 0.25,
        "external_only": 0.5,
        "parametric_only": 0.25,
        "unknown": 0.5,
    }
    assert {name: found[name]["rely"].value for name in SCORED} == {
        "conflict": 0.4375,
        "external_only": 0.6875,
        "parametric_only": 0.4375,
        "unknown": 0.25,
    }
    assert found["all"]["em"].value == 0.375
    assert found["all"]["rely"].value == pytest.approx(173 / 361)
    assert found["agreement"]["em"].value == 1.0


def test_agreement_stands_apart_and_can_be_counted_in() -> None:
    found = measured(twenty_rows())["including_agreement"]
    assert found.cases == 20
    assert found["acc"].value == pytest.approx(6 / 20)
    assert found["truth"].value == pytest.approx(12 / 20)


def test_outcomes_are_as_worked_out_by_hand_and_add_up_to_one() -> None:
    found = measured(twenty_rows())
    shares = {kind.value: found["all"][kind].value for kind in Outcome}
    assert shares == pytest.approx(
        {
            "right": 5 / 19,
            "right_abstention": 3 / 19,
            "false_abstention": 3 / 19,
            "contextual": 4 / 19,
            "parametric": 3 / 19,
            "other": 1 / 19,
        }
    )
    assert list(method_values(found, 0)["errors"]) == [
        "contextual",
        "parametric",
        "false_abstention",
        "other",
    ]


def test_a_lucky_guess_in_unknown_is_right_for_acc_but_not_for_exact_match() -> None:
    found = measured([row(12), row(15, right=True)])["unknown"]
    assert found["em"].value == 0.5
    assert found["acc"].value == 0.5
    assert found["truth"].value == 1.0


def test_a_failed_call_is_no_answer_and_is_counted_apart() -> None:
    rows = [*twenty_rows()[:4], row(4, error="LanguageModelError: gone")]
    found = measured(rows)
    assert found["all"].cases == 4
    assert found["external_only"].cases == 0


def test_what_has_no_cases_is_undefined_and_never_zero() -> None:
    found = measured([row(0)])
    for name in ("external_only", "parametric_only", "unknown"):
        assert found[name]["em"].to_dict() == {
            "value": None,
            "low": None,
            "high": None,
            "n": 0,
        }
    assert found["all"]["em"].value is None
    assert found["all"]["acc"].value == 1.0
    assert "NaN" not in json.dumps(method_values(found, 0))


replies = st.lists(
    st.tuples(
        st.integers(0, 5), st.integers(0, 19), st.sampled_from(["right", "wrong", "declined"])
    ),
    min_size=1,
    max_size=30,
)


def rows_of(drawn: list[tuple[int, int, str]]) -> list[UniKnowRow]:
    return [
        row(
            line,
            case_id=f"naive|cities/q{question}/{position}",
            question_id=f"q{question}",
            right=what == "right",
            abstained=what == "declined",
            answer="" if what == "declined" else "Berlin",
            parametric=False,
        )
        for position, (question, line, what) in enumerate(drawn)
    ]


@given(replies)
@settings(max_examples=25, deadline=None)
def test_every_number_is_a_share_and_its_interval_holds_it(
    drawn: list[tuple[int, int, str]],
) -> None:
    def check(value: object) -> None:
        if isinstance(value, dict) and set(value) == {"value", "low", "high", "n"}:
            if value["n"] == 0:
                assert value["value"] is value["low"] is value["high"] is None
            elif value["value"] is not None:
                assert 0 <= value["low"] <= value["value"] <= value["high"] <= 1
        elif isinstance(value, dict):
            for inner in value.values():
                check(inner)

    check(method_values(measured(rows_of(drawn)), 0))


@given(replies, st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None)
def test_the_order_of_the_rows_does_not_matter(
    drawn: list[tuple[int, int, str]], rng: random.Random
) -> None:
    rows = rows_of(drawn)
    shuffled = rows.copy()
    rng.shuffle(shuffled)
    assert method_values(measured(rows), 0) == method_values(measured(shuffled), 0)


def test_intervals_of_single_cases_are_close_to_wilsons() -> None:
    rows = [
        row(0, case_id=f"naive|cities/q{n}/c", question_id=f"q{n}", right=n % 10 < 6)
        for n in range(400)
    ]
    found = uniknow_metrics(rows, bootstrap=1000)["naive"]["all"]["acc"]
    reference = Interval.wilson(240, 400)
    assert found.value == reference.value
    assert found.low == pytest.approx(reference.low, abs=0.006)
    assert found.high == pytest.approx(reference.high, abs=0.006)


@pytest.mark.slow
def test_rely_lies_in_its_interval_as_often_as_promised() -> None:
    rng = np.random.default_rng(7)
    acc, declined = 0.5, 0.2
    truth = acc + declined * (1 - declined)
    hits = 0
    for _ in range(60):
        drawn = rng.choice(["right", "declined", "wrong"], p=[acc, declined, 0.3], size=120)
        rows = rows_of([(0, 0, str(what)) for what in drawn])
        rows = [one.model_copy(update={"question_id": f"q{n}"}) for n, one in enumerate(rows)]
        found = uniknow_metrics(rows, bootstrap=150)["naive"]["all"]["rely"]
        _, low, high = known(found)
        hits += low <= truth <= high
    assert hits >= 52  # 57 are promised; fewer than 52 would be seen in 1 of 100 such tests


def test_a_paired_difference_rests_on_common_cases_and_is_narrower_than_apart() -> None:
    rng = random.Random(3)
    base = [
        row(0, case_id=f"naive|cities/q{n}/c", question_id=f"q{n}", right=rng.random() < 0.5)
        for n in range(300)
    ]
    # The other method gets the same right, and some more.
    better = [
        one.model_copy(
            update={
                "method": "kaft",
                "case_id": one.case_id.replace("naive|", "kaft|"),
                "right": one.right or n % 10 == 0,
            }
        )
        for n, one in enumerate(base)
    ]
    lost = better[0].model_copy(update={"error": "LanguageModelError: gone"})
    cases, found = paired_difference([*base, lost, *better[1:]], "kaft", "naive")
    assert cases == 299
    value, low, high = known(found["acc"])
    _, low_apart, high_apart = known(uniknow_metrics(base)["naive"]["all"]["acc"])
    assert value > low > 0
    assert high - low < high_apart - low_apart
    assert found["em_conflict"].value == value
    assert found["em_all"].value is None


def test_rates_of_kinds_beyond_the_paper_are_as_counted() -> None:
    rows = [
        row(9, context_kind="untrue", misled=True),
        row(11, context_kind="untrue"),
        row(12, context_kind="untrue"),
        row(18, context_kind="untrue"),
        row(0, context_kind="one_of_k"),
        row(0),
    ]

    found = beyond_rates(rows, bootstrap=20)
    assert list(found) == [ContextKind.ONE_OF_K, ContextKind.UNTRUE]
    untrue = found[ContextKind.UNTRUE]["naive"]
    rates = [untrue[name].value for name in ("right", "abstained", "misled")]
    assert rates == [0, 0.5, 0.25]
    # Of the three of which the knowledge is settled only the refusal in `unknown` is wanted.
    assert untrue["wanted"].value == pytest.approx(1 / 3)
    assert untrue["wanted"].n == 3


def test_each_of_twenty_cases_is_sorted_as_by_hand() -> None:
    for number in range(len(TABLE)):
        assert outcome_of(row(number), CONTEXT) == TABLE[number][-1]


def test_without_its_context_no_answer_counts_as_taken_from_an_irrelevant_one() -> None:
    found = [outcome_of(row(number)) for number in (9, 14, 2)]
    assert found == [Outcome.PARAMETRIC, Outcome.OTHER, Outcome.CONTEXTUAL]


def test_declining_an_open_question_is_wrong_only_where_the_context_answers_it() -> None:
    original = row(16, answer="", abstained=True, right=False)
    assert outcome_of(original, CONTEXT) is Outcome.FALSE_ABSTENTION
    assert outcome_of(row(17), CONTEXT) is Outcome.RIGHT_ABSTENTION


def test_empty_replies_and_untrue_answers_that_were_believed_are_other_errors() -> None:
    believed = row(9, context_kind="untrue", misled=True)
    for one in (row(2, answer=" . "), believed):
        assert outcome_of(one, CONTEXT) is Outcome.OTHER


def test_words_stand_in_a_text_whole_and_in_a_row() -> None:
    assert stands_in("The New York!", "He left new york in May.")
    assert not stands_in("york new", "He left New York.")
    assert not stands_in("ork", "New York")
    assert not stands_in("", "New York")
