"""`knowgate calibrate --records`, and the promise about what passes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from knowgate.guard import FingerprintMismatchError, Guard, InputError, Policy
from knowgate.guard.testing import FakeEstimator, FakeScorer
from tests.offline_eval.cli.commands import Knowgate, Outcome, refused, write_lines
from tests.offline_eval.policies.measured import drawn, record_lines

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def drawn_lines() -> list[dict[str, Any]]:
    return [dict(line) for line in record_lines(drawn(400))]


@pytest.fixture
def records(tmp_path: Path, drawn_lines: list[dict[str, Any]]) -> Path:
    return write_lines(tmp_path / "records.jsonl", drawn_lines)


def _calibrate(knowgate: Knowgate, records: Path, *options: str | Path) -> Outcome:
    return knowgate(
        "calibrate", "--records", records, "--out", records.with_name("policy.json"), *options
    )


def test_it_says_what_is_promised_for_whom_and_what_is_not(
    knowgate: Knowgate, records: Path
) -> None:
    outcome = _calibrate(knowgate, records, "--risk", "0.25")

    assert (outcome.code, outcome.err) == (0, "")
    policy = Policy.load(records.with_name("policy.json"))
    assert policy.guarantee is not None
    assert policy.guarantee.certified
    first = outcome.out.splitlines()[0]
    assert first.startswith("answers at most 25% of what it lets through wrongly (confidence 90%)")
    assert "; abstains from about " in first
    for words in (
        policy.guarantee.statement,
        "population: drawn ones",
        "nor does it say anything about:",
        "another domain",
        "another language model",
        "another relevance scorer or confidence estimator",
        "questions that it was calibrated on: lets through",
        "policy → ",
    ):
        assert words in outcome.out


def test_the_policy_is_bound_to_what_the_records_name(knowgate: Knowgate, records: Path) -> None:
    _calibrate(knowgate, records, "--risk", "0.25")

    policy = Policy.load(records.with_name("policy.json"))
    assert (policy.scorer.kind, policy.aggregator) == ("bi_encoder", "max")
    assert policy.estimator is not None
    assert policy.estimator.kind == "sampled_consistency"
    with pytest.raises(FingerprintMismatchError):
        Guard(policy, scorer=FakeScorer(), estimator=FakeEstimator(), metrics=False)


def test_records_that_name_nothing_give_a_policy_that_no_guard_loads(
    knowgate: Knowgate, tmp_path: Path, drawn_lines: list[dict[str, Any]]
) -> None:
    records = write_lines(tmp_path / "records.jsonl", drawn_lines[1:])

    outcome = _calibrate(knowgate, records, "--risk", "0.25")

    assert outcome.code == 0
    assert "careful: The records do not name the relevance scorer" in outcome.out
    with pytest.raises(InputError, match="unnamed"):
        Guard.load(records.with_name("policy.json"), estimator=FakeEstimator(), metrics=False)


def test_the_same_command_gives_the_same_policy_and_is_the_same_attempt(
    knowgate: Knowgate, records: Path
) -> None:
    _calibrate(knowgate, records, "--risk", "0.25")
    first = records.with_name("policy.json").read_bytes()

    _calibrate(knowgate, records, "--risk", "0.25")

    assert records.with_name("policy.json").read_bytes() == first
    assert len(_history(records)) == 1


def _history(records: Path) -> list[str]:
    path = records.with_name(f"{records.stem}.calibrations.jsonl")
    return path.read_text(encoding="utf-8").splitlines()


def test_further_calibrations_on_the_same_records_share_delta_and_say_so(
    knowgate: Knowgate, records: Path
) -> None:
    levels = []
    for number, risk in enumerate(("0.25", "0.3", "0.35"), start=1):
        outcome = _calibrate(knowgate, records, "--risk", risk)
        assert f"attempt {number} on this data" in outcome.out
        guarantee = Policy.load(records.with_name("policy.json")).guarantee
        assert guarantee is not None
        assert guarantee.attempt == number
        levels.append(guarantee.level)
    assert levels == pytest.approx([0.075, 0.0125, 0.1 / 24])
    assert len(_history(records)) == 3

    # Nor does it help to drop a question: the data is beside the same history.
    lines = records.read_text(encoding="utf-8").splitlines(keepends=True)
    records.write_text("".join(lines[:-1]), encoding="utf-8")
    assert "attempt 4" in _calibrate(knowgate, records, "--risk", "0.25").out


def test_a_history_that_is_damaged_or_cannot_be_kept_is_bad_input(
    knowgate: Knowgate, records: Path
) -> None:
    _calibrate(knowgate, records, "--risk", "0.25")
    history = records.with_name(f"{records.stem}.calibrations.jsonl")
    history.write_text("{}\n", encoding="utf-8")
    outcome = _calibrate(knowgate, records, "--risk", "0.3")
    refused(outcome, f"{history}:1")


def test_nothing_that_qualifies_is_exit_code_3_with_what_is_missing_and_no_policy(
    knowgate: Knowgate, tmp_path: Path
) -> None:
    records = write_lines(tmp_path / "r.jsonl", list(record_lines(drawn(40))))

    outcome = _calibrate(knowgate, records, "--risk", "0.01")

    assert outcome.code == 3
    assert outcome.out.startswith("abstains from everything: nothing could be certified")
    assert "thresholds: none, it always abstains" in outcome.out
    for words in (
        "problem: No operating point",
        "ore questions",
        "  next: measure more questions",
        "questions: 40 in all, 16 to learn the path on, 24 on",
        "  next: --risk 0.",
        "was not written (--write-anyway writes it)",
    ):
        assert words in outcome.err
    assert not (tmp_path / "policy.json").exists()

    assert _calibrate(knowgate, records, "--risk", "0.01", "--write-anyway").code == 0
    policy = Policy.load(tmp_path / "policy.json")
    assert policy.route(1.0, 1.0).value == "abstain"


def test_a_policy_that_abstains_from_too_much_is_not_written(
    knowgate: Knowgate, records: Path
) -> None:
    outcome = _calibrate(knowgate, records, "--risk", "0.25", "--max-false-abstention", "0.01")

    assert outcome.code == 3
    assert "problem: It would abstain from" in outcome.err
    assert "more than 1%" in outcome.err
    assert not records.with_name("policy.json").exists()


def test_few_groups_are_named(
    knowgate: Knowgate, tmp_path: Path, drawn_lines: list[dict[str, Any]]
) -> None:
    few = [
        line | {"group": f"d{i % 40}"} if "question_id" in line else line
        for i, line in enumerate(drawn_lines)
    ]
    records = write_lines(tmp_path / "records.jsonl", few)

    outcome = _calibrate(knowgate, records, "--risk", "0.3")

    assert outcome.code == 0
    assert "careful: " in outcome.out
    assert "groups. Questions of one group tend to go alike" in outcome.out


def test_coverage_may_be_asked_for_instead_of_a_risk(knowgate: Knowgate, records: Path) -> None:
    outcome = _calibrate(knowgate, records, "--coverage", "0.6")

    assert outcome.code == 0
    policy = Policy.load(records.with_name("policy.json"))
    assert policy.guarantee is not None
    assert policy.guarantee.certified
    assert 0.02 < policy.guarantee.risk < 0.5


def test_each_route_can_be_bounded_on_its_own(knowgate: Knowgate, records: Path) -> None:
    outcome = _calibrate(knowgate, records, "--risk", "0.3", "--per-route")

    assert outcome.code == 0
    assert "each route on its own" not in outcome.out
    policy = Policy.load(records.with_name("policy.json"))
    assert policy.guarantee is not None
    assert policy.guarantee.certified


def test_costs_take_the_place_of_wrong_or_right(knowgate: Knowgate, records: Path) -> None:
    outcome = _calibrate(
        knowgate, records, "--risk", "0.35", "--cost",
        "wrong_answer=1,false_abstention=0.2,wrong_follow=0.5",
    )  # fmt: skip

    assert (outcome.code, outcome.err) == (0, "")
    policy = Policy.load(records.with_name("policy.json"))
    assert policy.guarantee is not None
    assert "0.2" in policy.guarantee.loss


def test_a_report_is_written_beside(knowgate: Knowgate, records: Path) -> None:
    page = records.with_name("page.html")

    outcome = _calibrate(knowgate, records, "--risk", "0.25", "--report", page)

    assert f"report → {page}" in outcome.out
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    numbers = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    assert numbers["kind"] == "calibration"


def test_an_ookb_run_can_be_promised_otherwise(knowgate: Knowgate, workplace: Path) -> None:
    outcome = knowgate(
        "calibrate", "--run", workplace / "run", "--promise", "selective", "--risk", "0.4",
        "--out", workplace / "new.json",
    )  # fmt: skip

    assert (outcome.code, outcome.err) == (0, "")
    assert "each asked twice" in outcome.out
    policy = Policy.load(workplace / "new.json")
    assert policy.scorer.kind == "lexical"
    assert not policy.may_answer


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--run", "x"], "--run, --records: exactly one"),
        (["--risk", "0.1", "--coverage", "0.5"], "--risk, --coverage: are mutually exclusive"),
        (["--coverage", "0.5", "--per-route"], "--per-route: does not go with --coverage"),
        (["--coverage", "0.5", "--cost", "wrong_answer=1"], "--cost: does not go with --coverage"),
        (["--cost", "wrong_answer=0,wrong_follow=0"], "--cost: nothing costs anything"),
        (["--share", "0.0001"], "too few to split: 400 questions of"),
        (["--answer-from-memory", "0.7"], "--answer-from-memory: does not go with"),
        (["--promise", "leak"], "--records: does not go with the promise 'leak'"),
        (["--coverage", "1.5"], "--coverage: must be between 0 and 1"),
        (["--risk", "0"], "--risk: must be between 0 and 1"),
        (["--delta", "nan"], "--delta: must be between 0 and 1"),
        (["--share", "1.01"], "--share: must be above 0 and at most 1"),
        (["--cost", "wrong_answer=2"], "--cost: "),
        (["--cost", "wrong=1"], "--cost: "),
        (["--cost", "wrong_answer"], "--cost: "),
        (["--report", "page.txt"], "page.txt: is not named like a page"),
        (["--promise", "everything"], "'--promise'"),
    ],
)
def test_options_that_do_not_fit_are_one_line_and_nothing_is_written(
    knowgate: Knowgate, records: Path, options: list[str], words: str
) -> None:
    refused(_calibrate(knowgate, records, *options), words)

    assert not records.with_name("policy.json").exists()


@pytest.mark.parametrize("option", ["--per-route", "--coverage=0.5", "--cost=wrong_answer=1"])
def test_the_promise_about_unanswerable_questions_takes_no_options_of_the_other(
    knowgate: Knowgate, workplace: Path, option: str
) -> None:
    outcome = knowgate(
        "calibrate", "--run", workplace / "run", "--out", workplace / "new.json", option
    )

    refused(outcome, "does not go with the promise 'leak'")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        (option, value)
        for option in ("--risk", "--delta", "--share", "--max-false-abstention")
        for value in ("0", "1", "2", "-0.1", "nan", "inf", "1e-320")
        if value != "1" or option in ("--risk", "--delta")
    ],
)
def test_numbers_out_of_range_are_rejected(
    knowgate: Knowgate, workplace: Path, option: str, value: str
) -> None:
    outcome = knowgate(
        "calibrate", "--run", workplace / "run", "--out", workplace / "new.json", option, value
    )

    refused(outcome, f"{option}: must be ", "1, not ")
    assert not (workplace / "new.json").exists()


@pytest.mark.parametrize("value", ["0", "-0.1", "1.0001", "nan", "inf"])
def test_a_declared_confidence_out_of_range_is_rejected(
    knowgate: Knowgate, workplace: Path, value: str
) -> None:
    outcome = knowgate(
        "calibrate", "--run", workplace / "run", "--out", workplace / "new.json",
        "--answer-from-memory", value,
    )  # fmt: skip

    refused(outcome, "--answer-from-memory: must be above 0 and at most 1")
    assert not (workplace / "new.json").exists()


def test_nothing_is_written_over_the_records(knowgate: Knowgate, records: Path) -> None:
    before = records.read_bytes()

    refused(knowgate("calibrate", "--records", records, "--out", records), "is a file that is read")
    refused(_calibrate(knowgate, records, "--report", records.with_name("policy.html")), "one file")
    manifest = records.with_name("records.manifest.json")
    refused(
        knowgate("calibrate", "--records", records, "--out", manifest), "is a file that is read"
    )

    assert records.read_bytes() == before


@pytest.mark.parametrize("name", ["signals.jsonl", "plan.json", "policy.json"])
def test_nothing_is_written_over_a_uniknow_run(
    knowgate: Knowgate, tmp_path: Path, name: str
) -> None:
    (tmp_path / "plan.json").write_text("{}", encoding="utf-8")
    (tmp_path / "manifest.json").write_text('{"suite": "uniknow"}', encoding="utf-8")

    outcome = knowgate(
        "calibrate", "--run", tmp_path, "--promise", "selective", "--out", tmp_path / name
    )

    refused(outcome, "is a file that is read here")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_a_full_disk_leaves_no_report_without_its_policy(knowgate: Knowgate, records: Path) -> None:
    page = records.with_name("page.html")

    outcome = knowgate(
        "calibrate", "--records", records, "--out", "/dev/full", "--risk", "0.25", "--report", page
    )

    refused(outcome, "No space left")
    assert not page.exists()
    assert not page.with_suffix(".json").exists()


def test_what_was_not_certified_has_no_limits_of_a_promise(
    knowgate: Knowgate, tmp_path: Path
) -> None:
    records = write_lines(tmp_path / "r.jsonl", list(record_lines(drawn(40))))
    page = tmp_path / "page.html"

    outcome = _calibrate(knowgate, records, "--risk", "0.01", "--report", page, "--write-anyway")

    assert outcome.code == 0
    assert "nor does it say" not in outcome.out
    assert (
        "careful: The number of further questions counts those that certify, 24 of" in outcome.out
    )
    assert "What is not promised" not in page.read_text(encoding="utf-8")


def test_a_broken_record_is_named_by_its_line(knowgate: Knowgate, records: Path) -> None:
    with records.open("a", encoding="utf-8") as stream:
        stream.write('{"question_id": "x"}\n')

    refused(_calibrate(knowgate, records), f"{records}:402: field 'relevance': Field required")
