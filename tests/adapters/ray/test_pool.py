"""Workers on a Ray cluster: who dies is replaced, who never answers is given up."""

from __future__ import annotations

import importlib.util
import socket
from typing import Any

import pytest

from knowgate.adapters.ray.cluster import RemoteCallError, ray_cluster
from knowgate.adapters.ray.pool import PoolSize
from knowgate.guard import InputError
from tests.support.ray_outcomes import ray_outcomes

_needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="needs the package ray"
)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found = ray_outcomes(tmp_path_factory).said
    pools: dict[str, Any] = found["pools"]
    return found | pools


@_needs_ray
@pytest.mark.slow
def test_an_item_that_kills_every_worker_is_given_up_and_no_other_with_it(
    said: dict[str, Any],
) -> None:
    others = [f"ITEM {number}" for number in range(12)]

    assert said["among others"] == [*others[:6], "WorkerLostError", *others[6:]]


@_needs_ray
@pytest.mark.slow
def test_an_item_that_is_late_or_cannot_travel_is_given_up_and_its_worker_goes_on(
    said: dict[str, Any],
) -> None:
    assert said["late"] == ["A", "LanguageModelTimeoutError", "TypeError", "B"]


@_needs_ray
@pytest.mark.slow
def test_a_worker_that_is_stuck_is_replaced_and_without_any_nobody_waits(
    said: dict[str, Any],
) -> None:
    assert said["blocking"] == ["LanguageModelTimeoutError", "A", "NoWorkersLeftError"]


@_needs_ray
@pytest.mark.slow
def test_a_worker_that_cannot_make_its_call_says_why(said: dict[str, Any]) -> None:
    (line,) = said["no model"]
    assert line.startswith("WorkerStartError: a worker could not make its call")
    assert "FileNotFoundError: no such model" in line


@_needs_ray
@pytest.mark.slow
def test_a_worker_that_dies_at_once_is_not_started_for_ever(said: dict[str, Any]) -> None:
    assert said["dies at start"] == ["WorkerStartError: a worker died while it was started"]


@_needs_ray
@pytest.mark.slow
def test_more_workers_than_the_cluster_has_room_for_are_an_error_in_time(
    said: dict[str, Any],
) -> None:
    (line,) = said["no room"]
    assert line.startswith("WorkerStartError: a worker was not ready within 1 s")
    assert "ask for fewer workers" in line


@_needs_ray
@pytest.mark.slow
def test_a_cluster_that_was_there_before_is_left_and_its_workers_are_not(
    said: dict[str, Any],
) -> None:
    assert said["still connected"] is True
    assert said["free CPUs"] == 2
    assert said["connected at the end"] is False


@_needs_ray
@pytest.mark.enable_socket
def test_an_address_where_nobody_listens_is_refused_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets it
        address = f"127.0.0.1:{taken.getsockname()[1]}"

        with pytest.raises(InputError, match="no Ray cluster there"), ray_cluster(address, 1):
            pass


def test_an_error_that_stands_for_another_keeps_what_is_known_of_it() -> None:
    error = RemoteCallError("RateLimitError", is_retryable=True)

    assert str(error) == "RateLimitError in a worker"
    assert error.is_retryable
    kind, arguments = error.__reduce__()
    assert str(kind(*arguments)) == str(error)


def test_a_misspelt_size_is_refused() -> None:
    with pytest.raises(InputError, match="worker"):
        PoolSize(worker=3)  # type: ignore[call-arg]
