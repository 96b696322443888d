"""Whether a judge judges by the context or by what it believes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knowgate.calibration import Interval
from knowgate.guard import Generation, InputError, LanguageModelError
from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.suites import ModelChoice, run_suite
from knowgate.offline_eval.suites.conflict.items import ConflictItem
from knowgate.offline_eval.suites.judge_bias._suite import (
    BiasSettings,
    JudgeBiasSuite,
    bias_cases,
)
from knowgate.offline_eval.suites.judge_bias.artefact import BiasRow, JudgeBias, measure_bias
from knowgate.offline_eval.suites.parts import System
from tests.adapters.huggingface.test_gguf import write_gguf
from tests.offline_eval.suites.conflict.questions import plain_item


def items(size: int) -> list[ConflictItem]:
    """Who runs a town: Ann or Bo, each with a passage."""
    return [
        plain_item({name: [f"{name} runs town {number}."] for name in ("Ann", "Bo")}, str(number))
        for number in range(size)
    ]


def cases(size: int) -> list[BiasRow]:
    return bias_cases([replace(item, given=0) for item in items(size)])


class Reader(ScriptedLanguageModel):
    """Calls a reply right if the context names it."""

    def generate(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> list[list[Generation]]:
        found = []
        for prompt in prompts:
            reply = prompt.rpartition("Reply: ")[2].split("\n")[0]
            self._default = ("yes" if f"{reply} runs" in prompt else "no",)
            found += super().generate([prompt], n=n, temperature=temperature, seed=seed)
        return found


def test_each_question_has_two_conflicts_and_two_controls() -> None:
    found = cases(1)
    assert [(case.label, case.believed) for case in found] == [
        (True, True),
        (False, False),
        (False, True),
        (True, False),
    ]
    assert [case.label != case.believed for case in found] == [False, False, True, True]
    assert found[3].context == "Bo runs town 0."
    assert found[3].reply == "Bo"


def test_a_question_without_both_passages_is_left_out() -> None:
    bare = plain_item({"Ann": ["p"], "Bo": []})
    assert bias_cases([replace(bare, given=0)]) == []


def test_the_first_passage_of_an_answer_is_the_context() -> None:
    asked = plain_item({name: [f"{name} did.", "Others say so."] for name in ("A", "B")})
    found = bias_cases([replace(asked, given=0)])
    assert {case.context for case in found} == {"A did.", "B did."}


def verdict(case: BiasRow, right: bool | None) -> BiasRow:
    return BiasRow(
        case_id=case.case_id, key=case.key, label=case.label, believed=case.believed, right=right
    )


def measured(
    judge: ScriptedLanguageModel,
    asked: Sequence[ConflictItem],
    path: Path,
    beliefs: Any = "asked",
) -> JudgeBias:
    settings = BiasSettings(judge="llm:scripted", beliefs=beliefs)
    run_suite(JudgeBiasSuite(asked), settings, path, [System(settings.name, judge)])
    return JudgeBias.read(path)


def verdicts(size: int, wrong: set[tuple[int, int]]) -> list[BiasRow]:
    """All right but for (question, number of the case)."""
    return [
        verdict(case, case.label != ((number // 4, number % 4) in wrong))
        for number, case in enumerate(cases(size))
    ]


def test_the_numbers_are_those_counted_by_hand() -> None:
    # Of 4 questions: 2 disbelieved replies rejected, 1 believed one accepted, 1 control wrong.
    found = measure_bias(verdicts(4, {(0, 3), (1, 3), (2, 2), (3, 0)}), judge="j")
    assert (found.questions, found.cases, found.no_verdict) == (4, 16, 0)
    assert found.rejects_disbelieved.value == 0.5
    assert found.accepts_believed.value == 0.25
    assert found.follows_belief.value == pytest.approx(3 / 8)
    assert found.control_errors.value == pytest.approx(1 / 8)
    assert found.belief_effect.value == pytest.approx(2 / 8)
    # 12 of 16 agree; the judge says yes 6 times, labels 8: chance (6·8 + 10·8) / 256 = .5.
    assert found.kappa.value == pytest.approx((12 / 16 - 0.5) / 0.5)


@pytest.mark.parametrize("share", [0.2, 1.0])
def test_a_judge_that_goes_by_its_belief_so_often_is_found_to(share: float) -> None:
    # Whole questions go one way: verdicts on one question are no independent ones.
    rng, inside = np.random.default_rng(7), {"follows": 0, "effect": 0, "kappa": 0}
    for _ in range(40):
        leans = rng.random(50) < share
        told = [
            verdict(case, case.believed if leans[number // 4] else case.label)
            for number, case in enumerate(cases(50))
        ]
        found = measure_bias(told, judge="j")
        assert found.kappa.n == 50
        for name, interval, truth in (
            ("follows", found.follows_belief, share),
            ("effect", found.belief_effect, share),
            ("kappa", found.kappa, 1 - share),
        ):
            assert interval.low is not None
            assert interval.high is not None
            inside[name] += interval.low - 1e-9 <= truth <= interval.high + 1e-9
    assert min(inside.values()) >= 35, inside


@pytest.mark.parametrize("always", [True, False])
def test_one_verdict_for_all_is_no_belief_and_no_agreement(always: bool) -> None:
    found = measure_bias([verdict(case, always) for case in cases(40)], judge="j")
    assert (found.kappa.value, found.belief_effect.value) == (0.0, 0.0)
    assert (found.follows_belief.value, found.control_errors.value) == (0.5, 0.5)
    assert "poorly" in (found.warning or "")


def bias(**fields: object) -> JudgeBias:
    full = Interval(0.0, 0.0, 0.1, 50)
    values: dict[str, object] = dict.fromkeys(
        ("follows_belief", "rejects_disbelieved", "accepts_believed", "control_errors"), full
    )
    values |= {"judge": "j", "questions": 50, "cases": 200, "belief_effect": full}
    return JudgeBias.model_validate(values | {"kappa": Interval(0.9, 0.8, 1.0, 50)} | fields)


def test_failures_and_silence_cost_one_case_each(tmp_path: Path) -> None:
    class Flaky(Reader):
        def generate(
            self,
            prompts: Sequence[str],
            *,
            n: int = 1,
            temperature: float = 0.0,
            seed: int | None = None,
        ) -> list[list[Generation]]:
            if any("town 1?" in prompt for prompt in prompts):
                raise LanguageModelError("down")
            return super().generate(prompts, n=n, temperature=temperature, seed=seed)

    found = measured(Flaky(), items(3), tmp_path / "a.json", "given")
    assert (found.cases, found.no_verdict) == (8, 4)
    silent = ScriptedLanguageModel(default="Hm.")
    assert measured(silent, items(3), tmp_path / "b.json", "given").no_verdict == 12
    rows = [json.loads(line) for line in (tmp_path / "b/rows.jsonl").read_text().splitlines()]
    assert {row["error"]["type"] for row in rows} == {"NoVerdictError"}


def test_a_judge_without_beliefs_cannot_be_measured(tmp_path: Path) -> None:
    judge = ScriptedLanguageModel(default="no")
    with pytest.raises(InputError, match="no belief"):
        measured(judge, items(2), tmp_path / "bias.json")


def test_a_judge_with_a_chat_template_explains_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KNOWGATE_CACHE", str(tmp_path / "cache"))
    write_gguf(tmp_path / "tiny.gguf")
    settings = JudgeBiasSuite.settings(judge=f"gguf:{tmp_path / 'tiny.gguf'}")
    [judge] = JudgeBiasSuite().load(settings, ModelChoice())
    assert (judge.model.max_new_tokens, judge.model.stop) == (160, ())
