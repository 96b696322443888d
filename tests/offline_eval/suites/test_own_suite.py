"""A suite of under 100 lines gets resume, report, gate and command line by itself."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from knowgate.guard import Guard, InputError, Policy
from knowgate.guard.contracts import Generation
from knowgate.guard.errors import LanguageModelError
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.offline_eval.run import CallLimits
from knowgate.offline_eval.run.calls import Progress, RunOptions
from knowgate.offline_eval.suites import read_suite_run, run_suite
from knowgate.offline_eval.suites.driver import plan_suite
from knowgate.offline_eval.suites.parts import SuiteSettings, System, Work
from tests.offline_eval.suites import arithmetic
from tests.offline_eval.suites.arithmetic import SUMS, Row, Settings, Sum, Sums
from tests.support.commands import command

_SUITE = f"python:{arithmetic.__name__}:SUMS"


def test_the_docstring_of_the_settings_is_the_help_of_their_options() -> None:
    class Own(SuiteSettings):
        """What is asked.

        Attributes:
            data: Questions,
                JSON lines.
        """

        data: Path
        upto: int = Field(4, description="The largest summand.")

    helps = {name: field.description for name, field in Own.model_fields.items()}
    assert helps["data"] == "Questions, JSON lines."
    assert helps["upto"] == "The largest summand."
    assert helps["limit"] == "Ask at most that many cases."


class Calculator:
    """A language model that adds; may be slow, fail on some questions, or hang in the end."""

    fingerprint = "calculator"

    def __init__(self, seconds: float = 0.0, failing: frozenset[str] = frozenset()) -> None:
        self.seconds, self.failing = seconds, failing
        self.asked: list[str] = []

    def generate(self, prompts: list[str], **_: Any) -> list[list[Generation]]:
        """Answer `a plus b`."""
        self.asked += prompts
        if log := os.environ.get("ASKED"):
            with Path(log).open("a", encoding="utf-8") as stream:
                stream.writelines(f"{prompt.replace(' ', '-')}\n" for prompt in prompts)
        time.sleep(self.seconds)
        if len(self.asked) > int(os.environ.get("HANGS_AFTER", "1000")):
            time.sleep(3600)
        if self.failing & set(prompts):
            raise LanguageModelError("down")
        sums = [prompt.split(" plus ") for prompt in prompts]
        return [[Generation(str(int(a) + int(b)))] for a, b in sums]

    async def agenerate(self, prompts: list[str], **_: Any) -> list[list[Generation]]:
        """As `generate`."""
        return self.generate(prompts)


def calculator() -> Calculator:
    """For runs that are killed."""
    return Calculator()


def test_the_suite_is_short() -> None:
    lines = Path(arithmetic.__file__).read_text(encoding="utf-8").splitlines()

    assert len(lines) < 100


def test_a_killed_run_continues_and_repeats_nothing(tmp_path: Path) -> None:
    run, log = tmp_path / "run", tmp_path / "asked"
    model = f"python:{__name__}:calculator"
    arguments = ("eval", _SUITE, "--set", "upto=6", "--model", model, "--out", run)
    rows, environment = run / "rows.jsonl", {"ASKED": str(log)}
    # However late it is killed, it is not at its end.
    with command(*arguments, env={**environment, "HANGS_AFTER": "30"}) as program:
        program.wait_for_lines(rows, 4)
        program.signal(signal.SIGKILL)
        program.wait()
    stored = {json.loads(line)["row_id"] for line in rows.read_bytes().split(b"\n")[:-1]}
    first = log.read_text(encoding="utf-8").split()
    assert 4 <= len(stored) < 36

    with command(*arguments, env=environment) as program:
        assert program.wait() == 0, program.err
        told = program.out

    again = log.read_text(encoding="utf-8").split()[len(first) :]
    assert not {f"model/{case}" for case in again} & stored
    found = [json.loads(line)["row_id"] for line in rows.read_text(encoding="utf-8").splitlines()]
    assert Counter(found) == Counter(
        f"model/{a}-plus-{b}" for a in range(1, 7) for b in range(1, 7)
    )
    assert f"next: knowgate report {run} --suite python:" in told


def test_a_failure_costs_one_case_and_is_asked_again_on_demand(tmp_path: Path) -> None:
    settings, run = Settings(upto=3), tmp_path / "run"
    broken = Calculator(failing=frozenset({"2 plus 2"}))
    run_suite(SUMS, settings, run, [System("model", broken)])
    rows = {row.row_id: row for row in read_suite_run(run, SUMS).rows}
    assert [name for name, row in rows.items() if row.error] == ["model/2-plus-2"]
    assert rows["model/2-plus-2"].error.detail == "down"

    whole = Calculator()
    run_suite(SUMS, settings, run, [System("model", whole)])
    assert whole.asked == []
    run_suite(SUMS, settings, run, [System("model", whole)], RunOptions(retry_failed=True))

    assert whole.asked == ["2 plus 2"]
    found = read_suite_run(run, SUMS).rows
    assert len(found) == 9
    assert all(row.right for row in found)


class Needy(Sums):
    """Asks for a number, and fails."""

    class settings(Settings):  # noqa: N801
        most: int

    name = "needy"

    def answer(self, cases: Sequence[Sum], system: System) -> list[Row]:
        """Raise an error that quotes a question."""
        raise KeyError(cases[0].question)


def test_an_error_of_the_suite_says_which_function_raised_it(tmp_path: Path) -> None:
    run_suite(Needy(), Needy.settings(upto=1, most=1), tmp_path, [System("model", Calculator())])

    (row,) = read_suite_run(tmp_path, Needy()).rows
    assert row.error.detail == f"KeyError was raised in {__name__}.Needy.answer"


def test_a_run_of_failures_alone_shows_an_error_and_nothing_to_go_on_with(tmp_path: Path) -> None:
    needy = f"python:{__name__}:Needy"
    with command("eval", needy, "--most", "1", "--out", "run", cwd=tmp_path) as program:
        code = program.wait()
        said, told = " ".join(program.err.split()), program.out

    assert code == 1
    assert f"rows.jsonl (for example LanguageModelError: KeyError was raised in {__name__}" in said
    assert "next:" not in told


class Twice(Sums):
    """Has each case two times."""

    name = "twice"

    def cases(self, settings: Settings) -> Sequence[Sum]:
        """All sums, and again."""
        return [*super().cases(settings), *super().cases(settings)]


def test_two_cases_of_one_id_are_rejected_before_there_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="2 rows have the id 'model/1-plus-1'"):
        run_suite(Twice(), Settings(), tmp_path / "run", [System("model", Calculator())])

    assert not (tmp_path / "run").exists()


def test_a_model_that_hangs_is_a_row(tmp_path: Path) -> None:
    options = RunOptions(CallLimits(timeout=0.02))

    run_suite(SUMS, Settings(upto=1), tmp_path, [System("model", Calculator(5.0))], options)

    (row,) = read_suite_run(tmp_path, SUMS).rows
    assert row.error is not None
    assert row.error.type == "LanguageModelTimeoutError"


class _Concurrent(Sums):
    """Asks case by case."""

    name = "concurrent-sums"

    async def answer(self, cases: Sequence[Sum], system: System) -> list[Row]:  # type: ignore[override]
        """As `Sums`, one case at a time."""
        await asyncio.sleep(0.01)
        return Sums.answer(self, cases, system)


def test_an_async_suite_asks_within_its_limits_and_tries_again(tmp_path: Path) -> None:
    suite, model = _Concurrent(), Calculator(failing=frozenset({"2 plus 1"}))
    limits = CallLimits(4, max_attempts=2, first_wait=0.0, retry_on=(LanguageModelError,))

    run_suite(suite, Settings(upto=2), tmp_path, [System("model", model)], RunOptions(limits))

    rows = {row.row_id: row for row in read_suite_run(tmp_path, suite).rows}
    assert len(rows) == 4
    assert [name for name, row in rows.items() if row.error] == ["model/2-plus-1"]
    assert Counter(model.asked)["2 plus 1"] == 2
    assert all(model.asked.count(question) == 1 for question in set(model.asked) - {"2 plus 1"})


def test_a_folder_with_another_run_is_rejected_and_what_differs_is_named(tmp_path: Path) -> None:
    systems = [System("model", Calculator())]
    run_suite(SUMS, Settings(upto=1), tmp_path / "run", systems)

    with pytest.raises(InputError, match=r"another run \(its settings.upto differs\)"):
        run_suite(SUMS, Settings(upto=2), tmp_path / "run", systems)


def test_files_in_settings_are_hashed_inputs(tmp_path: Path) -> None:
    data, systems = tmp_path / "data.txt", [System("model", Calculator())]
    data.write_text("one", encoding="utf-8")
    settings = Settings(upto=1, data=data)
    run_suite(SUMS, settings, tmp_path / "run", systems)
    data.write_text("two", encoding="utf-8")

    with pytest.raises(InputError, match="its input files' content differs"):
        run_suite(SUMS, settings, tmp_path / "run", systems)

    assert read_suite_run(tmp_path / "run", SUMS).manifest.inputs[0].name == "data.txt"


def test_guards_are_systems_of_their_own_and_progress_counts_all_rows(tmp_path: Path) -> None:
    seen: list[Progress] = []
    scorer = LexicalScorer()
    guard = Guard(Policy(scorer=scorer.fingerprint, relevance_threshold=0.0), scorer=scorer)
    model = Calculator()
    systems = [System("model", model), System("strict", model, guard, "abc")]

    assert plan_suite(SUMS, Settings(upto=2), systems).values == {
        "cases": {"model": 4, "strict": 4}
    }
    notes: list[str] = []
    options = RunOptions(on_progress=seen.append, on_note=notes.append)
    run_suite(SUMS, Settings(upto=2), tmp_path / "run", systems, options)

    # This suite asks the model alone, which is told.
    assert notes == ["warning: guards that the suite never asked (rows of the model): strict"]
    run = read_suite_run(tmp_path / "run", SUMS)
    assert run.manifest.settings["guards"] == {"strict": "abc"}
    assert run.manifest.settings["model"] == "calculator"
    assert [row.row_id for row in run.rows][::4] == ["model/1-plus-1", "strict/1-plus-1"]
    assert [(one.stage, one.done, one.total) for one in seen] == [
        ("asking", 4, 8),
        ("asking", 8, 8),
    ]


class _InStages(Sums):
    """Sums in an order that is made before the run, by the model alone."""

    def begin(self, work: Work[Settings, Sum]) -> None:
        # What was made of it so far can be shown.
        assert "settings" in repr(work)
        self.ordered = sorted(work.cases, key=self.place, reverse=True)
        work.cases = self.ordered[:3]

    def place(self, case: Sum) -> str:
        return self.row_id(case, "")

    def order(self, work: Work[Settings, Sum]) -> Sequence[tuple[Sum, System]]:
        ordered = [case for case in self.ordered if case in work.cases]
        return [(case, system) for system in work.systems for case in ordered]

    def prepare(self, work: Work[Settings, Sum]) -> None:
        assert list(work.guards) == ["strict"]
        systems = work.systems
        assert isinstance(systems, list)
        systems.remove(systems[-1])


def test_a_suite_in_stages_is_counted_without_them_and_warns_of_a_guard_that_it_removed(
    tmp_path: Path,
) -> None:
    scorer = LexicalScorer()
    guard = Guard(Policy(scorer=scorer.fingerprint, relevance_threshold=0.0), scorer=scorer)
    systems = [System("model", Calculator()), System("strict", Calculator(), guard, "abc")]
    notes: list[str] = []

    planned = plan_suite(_InStages(), Settings(upto=2), systems)
    run_suite(_InStages(), Settings(upto=2), tmp_path, systems, RunOptions(on_note=notes.append))

    assert planned.values == {"cases": {"model": 4, "strict": 4}}
    rows = [row.row_id for row in read_suite_run(tmp_path, _InStages()).rows]
    assert rows == ["model/2-plus-2", "model/2-plus-1", "model/1-plus-2"]
    assert notes == ["warning: guards that the suite never asked (rows of the model): strict"]
