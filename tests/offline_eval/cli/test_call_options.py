"""Options of calls: how many workers there are, and what each may use."""

from __future__ import annotations

import pytest

from knowgate.guard import InputError
from knowgate.offline_eval.cli._call_options import CallOptions, EngineName


def test_workers_share_the_concurrency_and_have_the_devices_that_were_asked_for() -> None:
    default = CallOptions(engine=EngineName.RAY).pool()
    given = CallOptions(
        engine=EngineName.RAY,
        workers=4,
        cpus_per_worker=8,
        gpus_per_worker=1,
        ray_address="head:6379",
        concurrency=20,
    ).pool()

    assert default is not None
    assert given is not None
    sizes = [
        (one.size.workers, one.size.in_flight, one.size.cpus_per_worker, one.size.gpus_per_worker)
        for one in (default, given)
    ]
    assert sizes == [(2, 4, 1.0, 0.0), (4, 5, 8, 1)]
    assert (default.address, given.address) == (None, "head:6379")


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("--workers", {"workers": 2}),
        ("--cpus-per-worker", {"cpus_per_worker": 2.0}),
        ("--gpus-per-worker", {"gpus_per_worker": 1.0}),
        ("--ray-address", {"ray_address": "head"}),
    ],
)
def test_options_of_workers_need_workers(option: str, given: dict[str, object]) -> None:
    with pytest.raises(InputError, match="--engine ray only") as error:
        CallOptions(**given).pool()  # type: ignore[arg-type]
    assert error.value.where == option
