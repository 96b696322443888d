"""The attacks, as cheap as they come: each outcome must hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from knowgate.offline_eval.data.graph.endpoint import EndpointSettings, SparqlError
from knowgate.offline_eval.data.graph.loading import load_graph
from tests.support.browser import CHROMIUM
from tests.support.deadlines import with_enough_time
from tools.attack import (
    concurrency,
    echo,
    inputs,
    interrupted,
    links,
    mentions,
    pages,
    policies,
    served,
)  # fmt: skip
from tools.attack.alarms import false_drift, false_risk
from tools.attack.batches import batches, steady_guard
from tools.attack.certificates import ATTEMPTS, DELTA, SCORERS, attacks, best_of, best_scorer, most
from tools.attack.endpoints import HostileEndpoint, answers
from tools.attack.outcome import Outcome
from tools.attack.run_files import RUNS, RunKind
from tools.attack.writers import labels


@pytest.mark.parametrize(
    "name",
    [
        "concurrency",
        "exits",
        "inputs",
        "judged_texts",
        "streams",
        pytest.param("policies", marks=pytest.mark.slow),
        pytest.param("writers", marks=pytest.mark.slow),
        pytest.param(
            "browser",
            marks=[
                pytest.mark.slow,
                pytest.mark.enable_socket,
                pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
            ],
        ),
    ],
)
def test_every_attack_of_the_kind_is_held(tmp_path: Path, name: str) -> None:
    attacks = import_module(f"tools.attack.{name}").attacks

    assert [one for one in attacks(tmp_path, full=False) if not one.held] == []


@pytest.mark.slow
def test_alarms_are_as_rare_as_promised() -> None:
    assert false_drift("plain", 0.3, 8) <= most(8, 0.05)
    assert false_risk(40) <= most(40, DELTA)


def test_a_batch_that_needs_twenty_deadlines_ends_after_two_and_keeps_what_is_done() -> None:
    def check(deadline: float) -> None:
        outcome = batches(steady_guard(deadline), deadline, (200,))
        assert outcome.tried == 3
        assert outcome.held, outcome

    with_enough_time(check)


def test_a_crossed_decision_would_be_noticed() -> None:
    guard = concurrency._guard()
    decision = guard.decide(concurrency._question(4), concurrency._passages(4))
    assert concurrency._right(4, decision)
    assert not concurrency._right(5, decision)


@pytest.mark.parametrize(
    ("attacks", "count"),
    [(echo.attacks, len(echo.ECHOES)), (mentions.attacks, 2 * len(mentions.MENTIONS) / 3)],
    ids=["repeating-the-question", "naming-its-subject"],
)
def test_no_way_of_repeating_the_question_lets_more_pass_than_measured(
    tmp_path: Path, attacks: Callable[..., Iterable[Outcome]], count: float
) -> None:
    outcomes = list(attacks(tmp_path, full=False))
    assert len(outcomes) == count
    assert {one.attack: one.cases for one in outcomes if not one.held} == {}


def test_a_call_that_takes_too_much_or_ends_badly_would_be_noticed() -> None:
    assert inputs.too_much(lambda: False)
    assert not inputs.too_much(lambda: True)


@pytest.mark.slow
def test_nothing_is_left_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of the commands, one that writes a whole run; `make attack` tries all.
    run = next(one for one in interrupted._COMMANDS if one[0].startswith("import"))
    monkeypatch.setattr(interrupted, "_COMMANDS", (run,))
    monkeypatch.setattr(interrupted, "_QUICK", ("import",))
    found = list(interrupted.attacks(tmp_path, full=False))
    assert [outcome.cases for outcome in found if not outcome.held] == []
    assert len(found) == 2 + interrupted._can_mount()


def test_copies_of_policies_work_or_say_what_to_do() -> None:
    assert policies.copies().held


def test_hostile_requests_are_harmless(tmp_path: Path, socket_enabled: None) -> None:
    outcomes = list(served.attacks(tmp_path, False))
    assert [one for one in outcomes if not one.held] == []
    assert sum(one.tried for one in outcomes) > 140


@pytest.mark.slow
def test_connections_and_bodies_leave_room_for_others(socket_enabled: None) -> None:
    assert [one for one in served.crowds(full=False) if not one.held] == []


def test_no_label_of_several_sessions_is_lost(tmp_path: Path) -> None:
    outcome = labels(tmp_path / "labels", people=2, sessions=2)
    assert outcome.held, outcome


DRAWS = 200


@pytest.mark.slow
def test_the_best_of_twenty_calibrations_keeps_its_promise_where_they_are_counted() -> None:
    noise = 2 * math.sqrt(DELTA * (1 - DELTA) / DRAWS)

    assert best_of(1, DRAWS, counted=False) / DRAWS <= DELTA + noise
    # What counting is for: choosing freely among splits breaks the bound far too often.
    assert best_of(ATTEMPTS, DRAWS, counted=False) / DRAWS > 0.3
    assert best_of(ATTEMPTS, DRAWS, counted=True) / DRAWS <= DELTA + noise


@pytest.mark.slow
def test_scorers_that_do_not_share_delta_break_the_bound() -> None:
    # Those that share it are among the attacks below.
    assert best_scorer(SCORERS, 40, shared=False) / 40 > 1.5 * DELTA


@pytest.mark.slow
def test_the_attacks_hold(tmp_path: Path) -> None:
    for outcome in attacks(tmp_path, False):
        assert outcome.held, outcome


_SETTINGS = EndpointSettings(pause=0, deadline=600, max_attempts=1, max_bytes=2**22)


@pytest.fixture
def endpoint(socket_enabled: None) -> Iterator[HostileEndpoint]:
    found = HostileEndpoint()
    yield found
    found.close()


def _load(endpoint: HostileEndpoint, answer: str) -> None:
    endpoint.answer = answers(endpoint.private)[answer]
    seconds = 0.5 if "endless" in answer or "drip" in answer else 60
    settings = _SETTINGS.model_copy(update={"timeout": seconds})
    load_graph(endpoint.url, languages=("en",), endpoint=settings)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("redirect 307 to another port", "status 307"),
        ("packed once", "more than 4,194,304 bytes"),
        ("packed twice", "packed otherwise than by gzip"),
        ("an endless body", "more than 4,194,304 bytes|does not end in time|no answer within"),
        ("headers that drip", "no answer within"),
        ("rows of triples", "in which .p is a triple"),
        ("entities in XML that says it is JSON", "is not SPARQL's JSON"),
    ],
)
def test_a_hostile_answer_is_one_error(endpoint: HostileEndpoint, answer: str, said: str) -> None:
    with pytest.raises(SparqlError, match=said):
        _load(endpoint, answer)
    assert endpoint.asked == 0


SIGNALS: RunKind = next(kind for kind in RUNS if kind.name == "signals")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> links.LinkedRuns:
    return links.LinkedRuns(tmp_path_factory.mktemp("runs"), full=False, only="signals")


@pytest.mark.parametrize("way", sorted(links.WAYS))
@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("rows.jsonl", SIGNALS.make),
        ("questions.jsonl", SIGNALS.make),
        ("rows.jsonl", SIGNALS.read[0]),
        ("calibrations.jsonl", SIGNALS.read[0]),
        ("calibration.json", SIGNALS.read[0]),
    ],
)
def test_no_command_waits_or_changes_what_a_link_leads_to(
    runs: links.LinkedRuns, name: str, command: str, way: str
) -> None:
    assert not runs.passes((SIGNALS, name, command, links.WAYS[way]))


def test_a_knowledge_base_holds_nothing_from_outside_of_its_folder(tmp_path: Path) -> None:
    assert [name for name, place in links.documents(tmp_path) if links.tells(place)] == []


def test_hostile_texts_and_requests_do_nothing(tmp_path: Path, socket_enabled: None) -> None:
    run = pages.hostile_run(tmp_path)
    assert pages.pages(run).held
    assert pages.requests(run).held


@pytest.mark.parametrize("text", [
    "<script>1</script>", "<img src=x onerror=a()>", "<a href='http://x'>y</a>",
])  # fmt: skip
def test_a_page_with_script_would_be_noticed(text: str) -> None:
    assert pages.runs_script(f"<p>{text}</p>")
    assert not pages.runs_script("<p><a href='#top'>y</a></p>")


def test_repetitive_texts_are_read_in_time() -> None:
    assert pages.patterns(2_000).held


@pytest.mark.slow
def test_connections_and_bodies_leave_room_for_pages(socket_enabled: None) -> None:
    assert [one for one in pages.crowds(full=False) if not one.held] == []
