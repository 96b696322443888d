from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from knowgate.calibration import Interval
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.suites import write_report
from knowgate.offline_eval.suites.ookb._replies_summary import RepliesSummary
from tests.offline_eval.suites.ookb.replies_run import (
    SYSTEM,
    Toy,
    judgement,
    toy,
    toys,
    write_replies_run,
    write_rows,
)

OTHER = SYSTEM.model_copy(update={"system_id": "t", "prompt": "conservative"})
GUARDED = SYSTEM.model_copy(update={"system_id": "g", "guard": "policy"})


def values(folder: Path, **arguments: Any) -> dict[str, Any]:
    """What `report.json` holds."""
    found = RepliesSummary(folder, **arguments).to_dict()
    json.dumps(found, allow_nan=False)
    return found


def test_counts_and_rates_of_one_system(tmp_path: Path) -> None:
    run = write_replies_run(tmp_path / "run", toys("yyy123"))

    found = values(run)

    replies = found["replies"]
    assert (replies["n"], replies["abstained"], replies["answered"]) == (6, 3, 3)
    assert [replies[name] for name in ("tier_1", "tier_2", "tier_3")] == [1, 1, 1]
    assert replies["judge"] == {"abstention": "given", "factuality": "given"}
    assert replies["judges"]["given"]["tier_3"] == 1
    assert found["abstention_rate"] == Interval.wilson(3, 6).to_dict()
    assert found["factuality_rate"] == Interval.wilson(2, 3).to_dict()
    assert found["wrong_answer_rate"] == Interval.wilson(1, 6).to_dict()
    assert found["false_abstention_rate"]["value"] is None
    assert found["labels"] is None
    assert (found["suite"], found["holds"], found["schema_version"]) == ("ookb", "replies", 1)


def test_answers_in_the_knowledge_base_are_counted_apart(tmp_path: Path) -> None:
    run = write_replies_run(
        tmp_path / "run",
        [*toys("yy3"), *toys("y11", "k", kind=CaseKind.IN_KB), toy("s0", kind=CaseKind.SYNTHETIC)],
    )

    found = values(run)

    assert (found["replies"]["n"], found["replies"]["abstained"]) == (4, 3)
    assert (found["replies"]["in_kb"]["n"], found["replies"]["in_kb"]["abstained"]) == (3, 1)
    assert found["false_abstention_rate"] == Interval.wilson(1, 3).to_dict()
    assert found["false_abstention_rate"] == found["replies"]["in_kb"]["false_abstention_rate"]


def test_errors_and_missing_verdicts_count_in_no_rate(tmp_path: Path) -> None:
    questions = [*toys("y3x"), toy("u", "?"), toy("v", "no")]
    run = write_replies_run(tmp_path / "run", questions, planned=9)

    found = values(run)

    assert (found["replies"]["n"], found["replies"]["errors"], found["errors"]) == (4, 1, 1)
    assert found["replies"]["unjudged"] == {"abstention": 1, "factuality": 2}
    assert found["abstention_rate"]["n"] == 3
    assert found["wrong_answer_rate"] == Interval.wilson(1, 2).to_dict()
    assert found["replies_missing"] == 4
    assert found["errors_by_type"] == {"LanguageModelTimeoutError": 1}


def test_given_labels_come_before_other_judges(tmp_path: Path) -> None:
    run = write_replies_run(tmp_path / "run", toys("yy"))
    write_rows(
        run / "judgements.jsonl",
        [
            judgement(f"s/q{number}/left_out", "abstention", judge, "no")
            for number in range(2)
            for judge in ("llm:x", "detector")
        ],
    )

    replies = values(run)["replies"]

    assert replies["judge"]["abstention"] == "given"
    assert replies["abstained"] == 2
    assert list(replies["judges"]) == ["given", "llm:x", "detector"]
    assert replies["judges"]["llm:x"]["abstained"] == 0
    assert replies["judges"]["llm:x"]["tier_1"] is None


def test_another_judge_stands_in_where_the_first_says_nothing(tmp_path: Path) -> None:
    run = write_replies_run(tmp_path / "run", [*toys("y"), toy("u", "?")])
    write_rows(
        run / "judgements.jsonl", [judgement("s/u/left_out", "abstention", "detector", "yes")]
    )

    assert values(run)["replies"]["abstained"] == 2
    text = write_report(run).markdown.read_text(encoding="utf-8")
    assert "left 1 reply out: there the verdict of detector counts" in text


def test_an_estimate_does_not_fill_the_gaps_of_a_judge(tmp_path: Path) -> None:
    run = write_replies_run(tmp_path / "run", [*toys("1"), toy("v", "no")])
    guess = judgement("s/v/left_out", "factuality", "estimate", "tier_1")
    write_rows(run / "judgements.jsonl", [{**guess, "estimate": True}])

    assert values(run)["replies"]["tier_1"] == 1


def test_a_question_asked_of_several_systems_is_one_piece_of_evidence(tmp_path: Path) -> None:
    questions = [
        Toy(f"q{number}", dict.fromkeys(("s", "t"), "yes" if number < 6 else "3"))
        for number in range(12)
    ]
    run = write_replies_run(tmp_path / "run", questions, [SYSTEM, OTHER])

    found = values(run)

    pooled = found["abstention_rate"]
    assert pooled["value"] == 0.5
    assert pooled["n"] == 12
    # The second system says nothing new: the interval is no narrower than one system's.
    alone = found["systems"][0]["replies"]["abstention_rate"]
    assert pooled["high"] - pooled["low"] > 0.95 * (alone["high"] - alone["low"])


def test_systems_with_and_without_a_guard_are_never_counted_together(tmp_path: Path) -> None:
    questions = [
        Toy(f"q{number}", {"s": "3", "g": "yes"}, topic=f"T{number % 2}") for number in range(8)
    ]
    run = write_replies_run(tmp_path / "run", questions, [SYSTEM, GUARDED])

    found = values(run)

    assert found["pooled"] == "guarded"
    assert found["abstention_rate"]["value"] == found["replies"]["judges"]["given"][
        "abstention_rate"
    ]["value"] == 1.0  # fmt: skip
    assert (sum(one["replies"]["n"] for one in found["topics"]), found["replies"]["n"]) == (8, 8)
    alone = write_replies_run(tmp_path / "alone", questions, [SYSTEM])
    assert (values(alone)["pooled"], values(alone)["replies"]["tier_3"]) == ("all", 8)


def test_systems_and_knowledge_bases_have_counts_of_their_own(tmp_path: Path) -> None:
    questions = [
        Toy("a", {"s": "yes", "t": "3"}, base="A"),
        Toy("b", {"s": "1", "t": "error"}, base="B"),
    ]
    run = write_replies_run(tmp_path / "run", questions, [SYSTEM, OTHER])

    found = values(run)

    first, second = found["systems"]
    assert (first["system_id"], first["retrieval"], first["guard"]) == ("s", "basic_rag", "off")
    assert first["knowledge_bases"]["A"]["abstained"] == 1
    assert second["knowledge_bases"]["A"]["tier_3"] == 1
    assert second["replies"]["errors"] == 1
    assert (first["failed"], second["failed"]) == (0.0, 0.5)
    assert found["knowledge_bases"]["B"]["n"] == 1
    assert found["cost"]["systems"]["t"]["errors"] == {"LanguageModelTimeoutError": 1}


def test_a_guard_is_compared_with_none_on_questions_that_it_had_not_seen(tmp_path: Path) -> None:
    questions = [
        Toy(f"q{number}", {"s": "3", "g": "yes"}, held_out=number >= 4) for number in range(12)
    ]
    run = write_replies_run(tmp_path / "run", questions, [GUARDED, SYSTEM])

    found = values(run)

    (difference,) = found["differences"]
    assert (difference["base"], difference["other"], difference["factor"]) == ("s", "g", "guard")
    assert (difference["pairs"], difference["seen_in_calibration"]) == (8, 4)
    assert difference["abstention"]["difference"]["value"] == 1.0
    assert difference["abstention"]["p_value"] == pytest.approx(2 * 0.5**8)
    # Two tests: declining and wrong answers.
    assert difference["abstention"]["p_adjusted"] == pytest.approx(4 * 0.5**8)
    assert difference["wrong_answer"]["difference"]["value"] == -1.0
    assert "factuality" not in difference
    guarded, plain = found["systems"]
    assert guarded["held_out"]["n"] == 8
    assert plain["held_out"] is None


def test_two_runs_are_compared_on_the_questions_of_both(tmp_path: Path) -> None:
    old = write_replies_run(tmp_path / "old", toys("33y3")[:4])
    new = write_replies_run(tmp_path / "new", toys("yyyyyy"))

    (difference,) = values(new, compare=[old])["differences"]

    assert (difference["factor"], difference["run"]) == ("run", "old")
    assert difference["pairs"] == 4
    assert difference["abstention"]["base"] == 0.25
    assert difference["abstention"]["other"] == 1.0
    assert difference["abstention"]["other_only"] == 3
    assert difference["abstention"]["p_value"] == 0.25


def test_the_topics_of_the_questions_come_first(tmp_path: Path) -> None:
    topics = ("a", "b", None)
    questions = [toy(f"q{number}", topic=topics[number % 3]) for number in range(9)]

    found = values(write_replies_run(tmp_path / "run", questions))

    assert found["topics_by"] == "topic"
    assert [(topic["topic"], topic["questions"]) for topic in found["topics"]] == [
        ("(none given)", 3),
        ("a", 3),
        ("b", 3),
    ]


@pytest.mark.parametrize(("sources", "found"), [(2, ["s0", "s1"]), (8, [])])
def test_sources_stand_in_where_they_hold_several_questions(
    tmp_path: Path, sources: int, found: list[str]
) -> None:
    run = write_replies_run(tmp_path / "run", toys("y" * 8))
    path = run / "questions.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    path.unlink()
    write_rows(path, [{**row, "source": f"s{at % sources}"} for at, row in enumerate(rows)])

    assert [one["topic"] for one in values(run)["topics"]] == found
