"""Beliefs: exactly one answer, in all variants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from knowgate.guard import Generation, LanguageModelError
from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.judging.free_form import parse_yes_no, yes_no_likelihoods
from knowgate.offline_eval.suites.conflict._rows import Vote
from knowgate.offline_eval.suites.conflict.beliefs import (
    believed,
    collect_beliefs,
    conflict_prompts,
)
from knowgate.offline_eval.suites.conflict.items import Candidate, ConflictItem
from tests.support.tables import table

from .questions import ScoringModel, item


@pytest.mark.parametrize(
    ("reply", "wanted"),
    table(__file__, "verdicts are read"),
)
def test_verdicts_are_read(reply: str, wanted: bool | None) -> None:
    assert parse_yes_no(reply) is wanted


@given(st.text())
def test_any_reply_has_a_verdict_or_none(reply: str) -> None:
    assert parse_yes_no(reply) in (True, False, None)


def votes(*accepted: tuple[bool | None, ...]) -> list[Vote]:
    return [
        Vote(variant=str(variant), answer=answer, accepted=value)
        for answer, values in enumerate(accepted)
        for variant, value in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("accepted", "wanted"),
    [
        ([(True, True), (False, False)], (0, "one")),
        ([(False, False), (True, True)], (1, "one")),
        ([(True, True), (True, True)], (None, "several")),
        ([(False, False), (False, False)], (None, "none")),
        ([(True, False), (False, False)], (None, "unsteady")),
        ([(True, True), (False, None)], (None, "unsteady")),
        ([(True, True), (False, True)], (None, "unsteady")),
        ([(True, True), (None, None)], (None, "unsteady")),
    ],
)
def test_exactly_one_answer_must_be_accepted_in_all_variants(
    accepted: list[tuple[bool | None, ...]], wanted: tuple[int | None, str]
) -> None:
    assert believed(votes(*accepted)) == wanted


def test_every_answer_is_asked_for_in_every_variant() -> None:
    lm = ScriptedLanguageModel({"Ann Rill": "yes"}, default="no")
    row = collect_beliefs(lm, conflict_prompts(), "asked", [item(given=None)])[0]
    assert (row.belief, row.why, len(row.votes)) == (0, "one", 6)
    assert not any("teapot" in prompt for prompt in lm.prompts)  # no acceptable answer


def test_a_model_that_scores_is_asked_by_likelihood() -> None:
    row = collect_beliefs(ScoringModel(), conflict_prompts(), "asked", [item()])[0]
    assert all(vote.yes is not None and vote.no is not None for vote in row.votes)
    assert row.belief is None  # yes and no are as likely: not accepted


def test_all_spellings_of_yes_count_together() -> None:
    class Chatty(ScriptedLanguageModel):
        """Writes "Yes" half as likely as " no", in two spellings; other words hardly ever."""

        def score_options(
            self, prompts: Sequence[str], options: Sequence[str]
        ) -> NDArray[np.float64]:
            found = {"Yes": np.log(0.3), "yes": np.log(0.2), " no": np.log(0.4)}
            return np.array([[found.get(option, -50.0) for option in options] for _ in prompts])

    ((yes, no),) = yes_no_likelihoods(Chatty(), ["Is it?"])
    assert (np.exp(yes), np.exp(no)) == (pytest.approx(0.5), pytest.approx(0.4))


def test_the_models_own_answer_counts_where_it_names_one() -> None:
    lm = ScriptedLanguageModel({"Rill": "I think Annie Rill."}, default="nobody")
    rows = collect_beliefs(lm, conflict_prompts(), "closed_book", [item(0), item(1)])
    assert [(row.belief, row.why) for row in rows] == [(0, "one"), (None, "none")]


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [("New York City, I think.", 1), ("It is New York.", 0), ("NYC or New York", None)],
)
def test_an_answer_within_anothers_name_was_not_given(reply: str, wanted: int | None) -> None:
    cities = (Candidate("New York"), Candidate("New York City", ("NYC",)))
    one = ConflictItem("k", "Where?", cities, wordings=("In which place?",))
    lm = ScriptedLanguageModel(default=reply)
    row = collect_beliefs(lm, conflict_prompts(), "closed_book", [one])[0]
    assert row.belief == wanted
    assert [vote.variant for vote in row.votes] == ["wording 1"] * 2 + ["wording 2"] * 2


def test_a_failed_call_costs_one_question() -> None:
    class Flaky(ScriptedLanguageModel):
        def generate(
            self,
            prompts: Sequence[str],
            *,
            n: int = 1,
            temperature: float = 0.0,
            seed: int | None = None,
        ) -> list[list[Generation]]:
            if any("Bovar" in prompt for prompt in prompts):
                raise LanguageModelError("down")
            return super().generate(prompts, n=n, temperature=temperature, seed=seed)

    lm = Flaky({"Ann": "yes"}, default="no")
    rows = collect_beliefs(lm, conflict_prompts(), "asked", [item(0), item(1), item(2)])
    assert [row.why for row in rows] == ["one", "error", "one"]
    assert rows[1].error is not None
    assert rows[1].error.type == "LanguageModelError"
