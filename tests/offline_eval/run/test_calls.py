"""Asking many items at once: who is asked, how often, and what is stored."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from knowgate.guard import InputError, LanguageModelError
from knowgate.guard.errors import LanguageModelTimeoutError
from knowgate.offline_eval.run import CallLimits
from knowgate.offline_eval.run.calls import Calls, Progress
from knowgate.offline_eval.run.rows import UnstorableRowError
from knowgate.offline_eval.run.table import Table
from tests.support.any_rows import any_rows, any_table
from tests.support.deadlines import awith_enough_time

_LIMITS = frozenset(field.name for field in fields(CallLimits))


async def _echo(item: str) -> dict[str, Any]:
    return {"id": item, "text": item.upper()}


def _failed(item: str, error: Exception) -> dict[str, Any]:
    return {"id": item, "error": type(error).__name__}


async def _run(items: Any, call: Any, store: Table[Any], **options: Any) -> Progress:
    limits = {name: options.pop(name) for name in _LIMITS & options.keys()}
    calls = Calls[Any](
        **{"key": str, "failed": _failed, **options},
        limits=CallLimits(**{"first_wait": 0.0, **limits}),
    )
    return await calls.run(items, call, store)


async def _rows(tmp_path: Path, items: Any, call: Any, **options: Any) -> dict[str, Any]:
    """The stored rows by id, of a new run."""
    with any_table(tmp_path / "rows") as store:
        await _run(items, call, store, **options)
    return {row["id"]: row for row in any_rows(tmp_path / "rows")}


async def test_what_is_stored_is_not_asked_again(tmp_path: Path) -> None:
    asked: list[str] = []

    async def call(item: str) -> dict[str, Any]:
        asked.append(item)
        return await _echo(item)

    with any_table(tmp_path / "rows") as store:
        store.append({"id": "b", "text": "from before"})
        totals = await _run(["a", "b", "c"], call, store)

    assert asked == ["a", "c"]
    assert (totals.total, totals.already, totals.stored, totals.failed) == (3, 1, 2, 0)


async def test_no_more_items_are_under_way_than_asked_for(tmp_path: Path) -> None:
    under_way = most = 0

    async def call(item: int) -> dict[str, Any]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.001)
        under_way -= 1
        return {"id": str(item)}

    await _rows(tmp_path, range(40), call, max_concurrency=5)

    assert most == 5


async def test_a_failure_that_may_pass_is_tried_again(tmp_path: Path) -> None:
    attempts: Counter[str] = Counter()

    async def call(item: str) -> dict[str, Any]:
        attempts[item] += 1
        if attempts[item] < 3:
            raise ConnectionResetError
        return await _echo(item)

    found = await _rows(tmp_path, ["a", "b"], call, max_attempts=3)

    assert attempts == {"a": 3, "b": 3}
    assert found["b"] == {"id": "b", "text": "B"}


async def test_a_failure_that_will_not_pass_is_a_row_after_one_attempt(tmp_path: Path) -> None:
    attempts: Counter[str] = Counter()

    async def call(item: str) -> dict[str, Any]:
        attempts[item] += 1
        if item == "b":
            raise KeyError(item)
        return await _echo(item)

    with any_table(tmp_path / "rows") as store:
        totals = await _run(["a", "b", "c"], call, store)

    found = {row["id"]: row for row in any_rows(tmp_path / "rows")}
    assert found["b"] == {"id": "b", "error": "KeyError"}
    assert len(found) == 3
    assert attempts["b"] == 1
    assert (totals.stored, totals.failed) == (3, 1)


async def test_a_failure_that_every_call_would_meet_ends_the_run(tmp_path: Path) -> None:
    async def call(item: str) -> dict[str, Any]:
        if item == "b":
            raise PermissionError("key refused")
        return await _echo(item)

    with any_table(tmp_path / "rows") as store, pytest.raises(PermissionError, match="key refused"):
        await _run(["a", "b", "c"], call, store, max_concurrency=1, stop_on=(PermissionError,))

    assert [row["id"] for row in any_rows(tmp_path / "rows")] == ["a"]


async def test_an_attempt_that_takes_too_long_is_broken_off_and_tried_again(tmp_path: Path) -> None:
    async def check(seconds: float) -> None:
        attempts: Counter[str] = Counter()

        async def call(item: str) -> dict[str, Any]:
            attempts[item] += 1
            if item == "never" or attempts[item] == 1:
                await asyncio.sleep(3600)
            return await _echo(item)

        folder = tmp_path / str(seconds)
        folder.mkdir()
        found = await _rows(folder, ["never", "second"], call, timeout=seconds, max_attempts=2)

        assert attempts == {"never": 2, "second": 2}
        assert found["never"] == {"id": "never", "error": LanguageModelTimeoutError.__name__}
        assert found["second"]["text"] == "SECOND"

    await awith_enough_time(check)


async def test_a_call_that_cancels_itself_is_a_failure_and_no_end(tmp_path: Path) -> None:
    async def call(item: str) -> dict[str, Any]:
        if item == "b":
            raise asyncio.CancelledError
        return await _echo(item)

    found = await _rows(tmp_path, ["a", "b", "c"], call)

    assert found["b"] == {"id": "b", "error": LanguageModelError.__name__}
    assert len(found) == 3


@pytest.mark.parametrize("row", [{"id": "b", "x": float("nan")}, {"id": "a"}, {}, None])
async def test_a_row_that_cannot_be_stored_is_a_failure_of_its_item(
    tmp_path: Path, row: Any
) -> None:
    async def call(item: str) -> Any:
        return row if item == "b" else await _echo(item)

    found = await _rows(tmp_path, ["a", "b", "c"], call)

    assert found["b"] == {"id": "b", "error": UnstorableRowError.__name__}
    assert len(found) == 3


async def test_a_failure_row_that_cannot_be_stored_is_a_mistake_of_the_program(
    tmp_path: Path,
) -> None:
    async def call(item: str) -> dict[str, Any]:
        raise KeyError(item)

    with (
        any_table(tmp_path / "rows") as store,
        pytest.raises(ValueError, match="`failed` made a row that cannot be stored"),
    ):
        await _run(["a"], call, store, failed=lambda item, error: {"id": "other"})


async def test_two_items_of_one_key_are_refused_before_any_call(tmp_path: Path) -> None:
    async def call(item: str) -> dict[str, Any]:
        raise AssertionError(item)

    with (
        any_table(tmp_path / "rows") as store,
        pytest.raises(InputError, match="two items have the key 'a'"),
    ):
        await _run(["a", "b", "a"], call, store)


async def test_progress_counts_what_is_on_disk_and_what_it_cost(tmp_path: Path) -> None:
    seen: list[Progress] = []

    async def call(item: str) -> dict[str, Any]:
        if item == "c":
            raise KeyError(item)
        return {"id": item, "input_tokens": 10, "output_tokens": None, "calls": 2}

    with any_table(tmp_path / "rows") as store:
        store.append({"id": "a", "input_tokens": 1000})
        totals = await _run("abcd", call, store, max_concurrency=1, on_progress=seen.append)

    assert [(state.done, state.total, state.failed) for state in seen] == [
        (2, 4, 0),
        (3, 4, 1),
        (4, 4, 1),
    ]
    assert [(s.input_tokens, s.output_tokens, s.calls) for s in seen] == [
        (10, None, 2),
        (10, None, 2),
        (20, None, 4),
    ]
    assert (totals.input_tokens, totals.output_tokens, totals.calls) == (20, None, 4)
