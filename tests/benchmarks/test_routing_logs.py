"""The statistics of `benchmarks/routing_logs.py`, which is a script and no package."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.paths import ROOT

SCRIPT = ROOT / "benchmarks" / "routing_logs.py"


@pytest.fixture(scope="module")
def routing() -> Iterator[Any]:
    spec = importlib.util.spec_from_file_location("routing_logs", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["routing_logs"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["routing_logs"]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    library: Any = pytest.importorskip("threadpoolctl")
    import sklearn.linear_model  # noqa: F401 - only loaded libraries can be limited

    with library.threadpool_limits(1):
        yield


def world(n: int, seed: int) -> tuple[Any, Any, list[str]]:
    """A sixth right only by closed book, a third only by RAG; random numbers; the groups."""
    rng = np.random.default_rng(seed)
    difference = rng.permutation(np.repeat([1, -1, 0], [n // 6, n // 3, n - n // 6 - n // 3]))
    return difference, rng, [str(at) for at in range(n)]


def test_the_known_accuracies_come_out(routing: Any, shared_data: Path) -> None:
    log = routing.read_log(shared_data / "llama31_logs" / "nq_closed_book_and_rag.jsonl")
    fold = routing.LABELS["contains"]
    closed_book = [routing.holds_gold(one.closed_book, one.gold, fold) for one in log]
    rag = [routing.holds_gold(one.rag, one.gold, fold) for one in log]
    either = [a or b for a, b in zip(closed_book, rag, strict=True)]
    assert [np.mean(right) for right in (closed_book, rag, either)] == pytest.approx(
        [0.374, 0.440, 0.538]
    )


@pytest.mark.parametrize(
    "text", ["", "Not specified", "There is no answer.", "none", "I don't know"]
)
def test_saying_that_there_is_no_answer_is_noticed(routing: Any, text: str) -> None:
    assert routing.says_no_answer(text)


@pytest.mark.parametrize("text", ["No Country for Old Men", "Notting Hill", "1989", "Noah"])
def test_an_answer_is_not_taken_for_none(routing: Any, text: str) -> None:
    assert not routing.says_no_answer(text)


def test_folds_spread_each_kind_and_keep_repeats_together(routing: Any) -> None:
    strata = [0] * 30 + [1] * 20 + [0]
    groups = [*map(str, range(50)), "7"]
    folds = routing.assign_folds(strata, groups, 10, seed=3)
    assert folds[50] == folds[7]
    assert np.bincount(folds[:30]).tolist() == [3] * 10
    assert np.bincount(folds[30:50]).tolist() == [2] * 10


@pytest.mark.slow
def test_a_telling_column_is_used(routing: Any) -> None:
    difference, rng, groups = world(300, seed=0)
    column = difference + rng.normal(scale=0.5, size=300)
    share = routing.closed_book_share(
        [routing.Block(column[:, None], "rank")], difference, groups, repeats=1
    )
    assert (share * difference).mean() > 0.1


@pytest.mark.slow
def test_noise_costs_next_to_nothing(routing: Any) -> None:
    difference, rng, groups = world(300, seed=1)
    noise = routing.Block(rng.normal(size=(300, 10)), "standard")
    share = routing.closed_book_share([noise], difference, groups, repeats=2)
    assert (share * difference).mean() >= -0.01


def test_labels_outside_the_training_folds_do_not_count(routing: Any) -> None:
    difference, rng, groups = world(120, seed=2)
    x = difference[:, None] + rng.normal(size=(120, 3))
    train = np.arange(120) < 90
    hidden = np.where(train, difference, -difference)
    chosen = [
        routing.takes_closed_book(x, labels, groups, train, seed=0)
        for labels in (difference, hidden)
    ]
    assert chosen[0].any()
    assert not chosen[0].all()
    assert (chosen[0] == chosen[1]).all()


def test_too_few_telling_questions_leave_the_better_fixed_choice(routing: Any) -> None:
    difference = np.array([1] * 3 + [-1] * 9 + [0] * 8)
    chosen = routing.takes_closed_book(
        difference[:, None].astype(float),
        difference,
        list(map(str, range(20))),
        np.ones(20, bool),
        0,
    )
    assert not chosen.any()


def test_the_interval_of_a_mean_surrounds_it(routing: Any) -> None:
    found = routing.bootstrap_mean(np.array([0.0, 1.0] * 50))
    assert found.value == 0.5
    assert found.n == 100
    assert 0.38 <= found.low <= 0.42
    assert 0.58 <= found.high <= 0.62
