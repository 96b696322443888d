"""Criteria of one's own, and verdicts and letters as models really write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard import InputError
from knowgate.guard.prompts import Prompt
from knowgate.offline_eval.judging.free_form import LETTERS, parse_choices
from knowgate.offline_eval.judging.llm_judge import Criterion, LLMJudge
from tests.offline_eval.judging.runs import ScriptedJudge
from tests.support.tables import table

TOML = """
name = "tone"
prompt = "tone.txt"
outcomes = ["friendly", "curt"]
sees = ["question", "reply", "citation"]
positive = "friendly"
otherwise = "NA"

[only_where]
abstention = ["no"]
"""


def written(folder: Path, text: str, name: str = "tone.toml") -> Path:
    (folder / "tone.txt").write_text("Is it friendly?\n", encoding="utf-8")
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_a_criterion_is_read_from_toml(tmp_path: Path) -> None:
    found = Criterion.read(written(tmp_path, TOML))
    assert found == Criterion(
        name="tone",
        prompt=Prompt("tone", "Is it friendly?"),
        outcomes=("friendly", "curt"),
        tag="tone",
        sees=("question", "reply", "citation"),
        positive="friendly",
        only_where={"abstention": ("no",)},
        otherwise="NA",
    )


def test_a_criterion_that_waits_for_an_outcome_that_never_comes_is_refused(tmp_path: Path) -> None:
    # In place of the bundled abstention, whose "no" factuality waits for.
    mine = TOML.replace('"tone"', '"abstention"').replace('[only_where]\nabstention = ["no"]', "")
    criterion = Criterion.read(written(tmp_path, mine))
    model = ScriptedJudge(lambda _: "")
    with pytest.raises(InputError, match="waits for an outcome 'no' of 'abstention'"):
        LLMJudge(model.model, name="m", criteria=Criterion.bundled([criterion]))


def test_a_criterion_of_the_same_name_takes_the_bundled_ones_place() -> None:
    mine = Criterion(
        name="abstention",
        prompt=Prompt("mine", "Does it decline?"),
        outcomes=("yes", "no"),
        tag="abstention",
    )
    model = ScriptedJudge(lambda _: "").model
    judge = LLMJudge(model, name="m", criteria=Criterion.bundled([mine]))
    bundled = LLMJudge(model, name="m")
    assert judge.criteria == ("abstention", "factuality", "failure")
    assert judge.version("abstention") != bundled.version("abstention")
    assert judge.version("factuality") == bundled.version("factuality")


YES_NO = ("yes", "no")


def test_a_verdict_is_read_however_it_is_decorated() -> None:
    for text in table(__file__, "a verdict is read however it is decorated"):
        found = Criterion.parse_tag(text, "abstention", YES_NO)
        assert found is not None
        assert found.outcome == "yes"


def test_anything_else_is_no_verdict() -> None:
    for text in table(__file__, "anything else is no verdict"):
        assert Criterion.parse_tag(text, "abstention", YES_NO) is None


@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [
                    "<t>",
                    "</t>",
                    "< T >",
                    "</ t>",
                    "<t",
                    "t>",
                    "yes",
                    "NO",
                    "**",
                    "```",
                    "\n",
                    "&lt;t>",
                ]
            ),
            st.text(max_size=5),
        ),
        max_size=30,
    )
)
def test_no_text_breaks_the_parser_or_makes_up_an_outcome(parts: list[str]) -> None:
    text = "".join(parts)
    found = Criterion.parse_tag(text, "t", YES_NO)
    if found is not None:
        assert found.outcome in YES_NO
        assert found.reasoning in text


def test_a_huge_message_is_read_in_no_time() -> None:
    text = "<abstention>" * 50_000 + "x" * 1_000_000 + "<abstention>no</abstention>"
    found = Criterion.parse_tag(text, "abstention", YES_NO)
    assert found is not None
    assert (found.outcome, len(found.reasoning)) == ("no", 8_000)


OPTIONS = ["Ann Li", "Bo Ek", "Ann Li of Rill", "1999"]


@pytest.mark.parametrize(
    ("reply", "wanted"),
    table(__file__, "letters are read"),
)
def test_letters_are_read(reply: str, wanted: str | None) -> None:
    assert parse_choices(reply, OPTIONS) == (None if wanted is None else tuple(wanted))


@settings(deadline=None)
@given(st.text(max_size=400), st.lists(st.text(max_size=20), min_size=1, max_size=8))
def test_any_reply_gives_letters_of_the_options_or_none(reply: str, options: list[str]) -> None:
    found = parse_choices(reply, options)
    if found is not None:
        assert found
        assert list(found) == sorted(set(found))
        assert set(found) <= set(LETTERS[: len(options)])
