"""A device that fails: smaller batches, then the CPU; what is not finite is never a result."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from knowgate.guard import _process
from knowgate.guard.engine._backends import begin_rows, run_rows
from knowgate.guard.engine._batcher import SharedBackend
from knowgate.guard.engine._fallback import FallbackBackend
from knowgate.guard.errors import InputError, SignalValueError

torch = pytest.importorskip("torch")
ROWS = [[7, 8, 9], [5], [4, 4, 4, 4, 4], [6, 6], [3, 3, 3], [2]]


class Sums:
    """A CPU that gives the ids as token vectors and their sum as embedding."""

    name, device, dtype, workers = "sums", "cpu", "float32", 1

    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []

    def run(self, inputs: Mapping[str, NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        kept = (inputs["input_ids"] * inputs["attention_mask"]).astype(np.float32)
        self.shapes.append(kept.shape)
        return [kept[:, :, None], kept.sum(1, keepdims=True)]


class Device(Sums):
    """The same on a device, which fails as `fails` says."""

    device = "cuda:0"

    def __init__(self, fails: Callable[[NDArray[np.int64]], Exception | None]) -> None:
        super().__init__()
        self._fails = fails

    def run(self, inputs: Mapping[str, NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        found = super().run(inputs)
        if (error := self._fails(inputs["input_ids"])) is not None:
            raise error
        return found


class Corrupting(Device):
    """Gives NaN for rows in which `poison` occurs, if they run with more than `most` rows."""

    def __init__(self, poison: int, most: int) -> None:
        super().__init__(lambda ids: None)
        self._poison, self._most = poison, most

    def run(self, inputs: Mapping[str, NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        vectors, sums = super().run(inputs)
        if len(sums) > self._most:
            sums[(inputs["input_ids"] == self._poison).any(1)] = np.nan
        return [vectors, sums]


class Counted:
    """What was counted since it was made."""

    def __init__(self) -> None:
        self._before = _process.counts()

    def __call__(self) -> dict[str, int]:
        now = _process.counts()
        return {name: n - self._before[name] for name, n in now.items() if n > self._before[name]}


def sums(found: Sequence[Any]) -> list[float]:
    return [float(outputs[1][0]) for outputs in found]


def out_of_memory_above(most: int) -> Callable[[NDArray[np.int64]], Exception | None]:
    return lambda ids: torch.OutOfMemoryError("CUDA out of memory") if ids.size > most else None


EXPECTED = [float(sum(row)) for row in ROWS]


def test_a_batch_that_does_not_fit_is_halved_and_the_size_remembered() -> None:
    counted, cpu = Counted(), Sums()
    device = Device(out_of_memory_above(48))
    backend = FallbackBackend(device, lambda: cpu)
    found = run_rows(backend, ROWS)
    assert sums(found) == EXPECTED
    assert [one[0][:, 0].tolist() for one in found] == ROWS
    assert counted() == {"out_of_memory": 1}
    before = len(device.shapes)
    # The device goes on, and is not asked for more than it has managed.
    assert sums(run_rows(backend, ROWS)) == EXPECTED
    assert all(rows * length <= 48 for rows, length in device.shapes[before:])
    assert counted() == {"out_of_memory": 1}
    assert (backend.device, backend.batched, cpu.shapes) == ("cuda:0", True, [])


def test_a_row_that_does_not_fit_alone_goes_to_the_cpu() -> None:
    counted, cpu = Counted(), Sums()
    backend = FallbackBackend(Device(out_of_memory_above(4)), lambda: cpu)
    assert sums(run_rows(backend, ROWS)) == EXPECTED
    assert cpu.shapes == [(1, 5)]
    assert counted()["cpu_row"] == 1
    assert backend.device == "cuda:0"


def test_the_cpu_is_loaded_once_and_only_when_it_is_needed() -> None:
    loaded: list[Sums] = []

    def load() -> Sums:
        loaded.append(Sums())
        return loaded[-1]

    backend = FallbackBackend(Device(out_of_memory_above(48)), load)
    run_rows(backend, ROWS)
    assert loaded == []
    backend = FallbackBackend(Device(out_of_memory_above(0)), load)
    assert sums(run_rows(backend, ROWS)) == EXPECTED
    assert len(loaded) == 1


@pytest.mark.parametrize("error", [torch.AcceleratorError, RuntimeError])
def test_a_lost_device_is_replaced_by_the_cpu_until_the_process_ends(
    error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    counted, cpu = Counted(), Sums()
    dead: list[bool] = []

    def fails(ids: NDArray[np.int64]) -> Exception | None:
        if 4 in ids:
            dead.append(True)
        return error("CUDA error: an illegal memory access was encountered") if dead else None

    device = Device(fails)
    backend = FallbackBackend(device, lambda: cpu)
    assert sums(run_rows(backend, ROWS[:2])) == EXPECTED[:2]
    with caplog.at_level(logging.ERROR, "knowgate.guard"):
        assert sums(run_rows(backend, ROWS)) == EXPECTED
    assert (backend.device, backend.batched) == ("cpu", False)
    assert "device cuda:0 was lost" in caplog.text
    asked = len(device.shapes)
    assert sums(run_rows(backend, ROWS)) == EXPECTED
    assert len(device.shapes) == asked
    assert counted() == {"failed": 1, "device_lost": 1, "cpu_row": len(ROWS)}


def test_a_failure_of_one_row_neither_loses_the_device_nor_fails_its_neighbours() -> None:
    counted, cpu = Counted(), Sums()
    device = Device(lambda ids: RuntimeError("CUDA error: invalid argument") if 9 in ids else None)
    backend = FallbackBackend(device, lambda: cpu)
    rows = [[1] * 12, [2] * 10 + [9], [3] * 9, [1]]
    assert sums(run_rows(backend, rows)) == [float(sum(row)) for row in rows]
    assert cpu.shapes == [(1, 11)]
    assert backend.device == "cuda:0"
    assert "device_lost" not in counted()


@pytest.mark.parametrize("most", [1, 3])
def test_rows_that_are_not_finite_run_again_in_a_smaller_batch(most: int) -> None:
    counted, cpu = Counted(), Sums()
    backend = FallbackBackend(Corrupting(3, most), lambda: cpu)
    assert sums(run_rows(backend, ROWS)) == EXPECTED
    assert counted() == {"not_finite": 1}
    assert cpu.shapes == []


def test_rows_that_are_never_finite_on_the_device_go_to_the_cpu() -> None:
    counted, cpu = Counted(), Sums()
    backend = FallbackBackend(Corrupting(4, 0), lambda: cpu)
    assert sums(run_rows(backend, ROWS)) == EXPECTED
    assert cpu.shapes == [(1, 5)]
    assert counted() == {"not_finite": 1, "cpu_row": 1}


class NeverFinite(Sums):
    """A CPU that gives infinity for rows in which 4 occurs."""

    def run(self, inputs: Mapping[str, NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        vectors, found = super().run(inputs)
        return [vectors, np.where((inputs["input_ids"] == 4).any(1)[:, None], np.inf, found)]


def test_what_is_not_finite_anywhere_fails_and_only_for_its_own_caller() -> None:
    backend = FallbackBackend(Corrupting(4, 0), NeverFinite)
    with pytest.raises(SignalValueError, match="NaN or infinity"):
        run_rows(backend, ROWS)
    shared = SharedBackend(backend)
    good, bad = begin_rows(shared, ROWS[:2]), begin_rows(shared, ROWS[2:])
    assert sums(good()) == EXPECTED[:2]
    with pytest.raises(SignalValueError):
        bad()


def test_errors_of_the_caller_are_no_failures_of_the_device() -> None:
    counted = Counted()
    device = Device(lambda ids: InputError("not of the device"))
    with pytest.raises(InputError):
        run_rows(FallbackBackend(device, Sums), ROWS)
    assert counted() == {}
    assert len(device.shapes) == 1


def test_a_failure_that_shows_only_when_results_are_fetched_is_handled_as_well() -> None:
    class Asynchronous(Sums):
        device = "cuda:0"

        def start(
            self, inputs: Mapping[str, NDArray[np.int64]], lengths: Sequence[int]
        ) -> Callable[[], Any]:
            def wait() -> Any:
                if inputs["input_ids"].size > 48:
                    raise torch.OutOfMemoryError
                vectors, found = self.run(inputs)
                return [[vectors[row, :n], found[row]] for row, n in enumerate(lengths)]

            return wait

    counted = Counted()
    assert sums(run_rows(FallbackBackend(Asynchronous(), Sums), ROWS)) == EXPECTED
    assert counted() == {"out_of_memory": 1}


def test_after_a_loss_threads_compute_their_own_rows() -> None:
    device = Device(lambda ids: RuntimeError("lost"))
    shared = SharedBackend(FallbackBackend(device, Sums))
    assert shared.batched
    assert sums(run_rows(shared, ROWS)) == EXPECTED
    counted = Counted()
    assert sums(run_rows(shared, ROWS)) == EXPECTED
    assert (shared.device, shared.batched, counted()) == ("cpu", False, {})
