"""The same run on a Ray cluster: one worker is killed, nothing is lost and nothing stored twice."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.any_rows import any_rows
from tests.support.ray_outcomes import RayOutcomes, ray_outcomes

_needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="needs the package ray"
)


@pytest.fixture(scope="module")
def killed_run(tmp_path_factory: pytest.TempPathFactory) -> RayOutcomes:
    return ray_outcomes(tmp_path_factory)


@_needs_ray
@pytest.mark.slow
def test_every_item_is_stored_once_although_a_worker_was_killed(killed_run: RayOutcomes) -> None:
    assert len(killed_run.said["run"]["killed"]) == 1
    assert killed_run.times_stored == Counter(str(item) for item in range(300))
    assert killed_run.said["run"]["stored"] == 300


@_needs_ray
@pytest.mark.slow
def test_another_worker_takes_the_place_of_the_killed_one(killed_run: RayOutcomes) -> None:
    workers = {row["worker"] for row in killed_run.rows.values() if "worker" in row}

    assert set(killed_run.said["run"]["killed"]) < workers
    assert len(workers) == 3


@_needs_ray
@pytest.mark.slow
def test_only_what_was_under_way_at_the_killed_worker_is_asked_twice(
    killed_run: RayOutcomes,
) -> None:
    twice = {item for item, times in killed_run.times_asked.items() if times > 1}

    # Tried again as they should be: 20 and 30; 50 never answers.
    assert twice >= {"20", "30", "50"}
    assert len(twice - {"20", "30", "50"}) <= 4


@_needs_ray
@pytest.mark.slow
def test_failures_in_workers_are_rows_of_their_own_type(killed_run: RayOutcomes) -> None:
    failures = {item: row["error"] for item, row in killed_run.rows.items() if "error" in row}

    assert failures == {
        "10": "KeyError",
        "40": "RemoteCallError",
        "50": "LanguageModelTimeoutError",
    }
    assert killed_run.said["run"]["failed"] == 3
    assert killed_run.said["run"]["calls"] == 297
    assert killed_run.rows["40"]["said"] == "_CannotTravelError in a worker"


@_needs_ray
@pytest.mark.slow
def test_whether_trying_again_may_help_is_known_although_the_cause_stays_behind(
    killed_run: RayOutcomes,
) -> None:
    assert killed_run.times_asked["20"] >= 2
    assert "worker" in killed_run.rows["20"]
    assert killed_run.times_asked["30"] >= 2
    assert "worker" in killed_run.rows["30"]


@_needs_ray
@pytest.mark.slow
def test_a_finished_run_asks_nobody(killed_run: RayOutcomes) -> None:
    assert killed_run.said["run"]["again"] == 0


@_needs_ray
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Ray sees to it by itself")
def test_a_cluster_that_is_started_here_stays_on_loopback(killed_run: RayOutcomes) -> None:
    assert killed_run.said["addresses"] == ["127.0.0.1"]


@pytest.mark.slow
def test_without_ray_the_error_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['ray'] = None\n"
        "from knowgate.offline_eval.run.calls import Calls, RayPool\n"
        "from knowgate.offline_eval.run.event_loop import run_interruptibly\n"
        "from tests.support.any_rows import any_table\n"
        "calls = Calls(str, lambda i, e: {'id': str(i)})\n"
        "with any_table(sys.argv[1]) as store:\n"
        "    run_interruptibly(RayPool().run(calls, [1], list, store))\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "rows")],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert "MissingDependencyError: ray cannot be imported: needs `pip install" in done.stderr
    assert any_rows(tmp_path / "rows") == []
