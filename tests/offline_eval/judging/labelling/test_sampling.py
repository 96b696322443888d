"""The sample (proportional, whole, repeatable, growing), and criteria by name and from files."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowgate.offline_eval.judging.labelling._criteria import (
    Stratum,
    draw_sample,
    in_asking_order,
    load_criterion,
    open_sample,
)
from knowgate.offline_eval.judging.llm_judge import Criterion
from knowgate.offline_eval.run import RepliesRun
from knowgate.offline_eval.run.replies import Judgement
from tests.offline_eval.judging.labelling.toy_replies import toy_run

SIZES = st.lists(st.integers(1, 30), min_size=1, max_size=8)


def strata_of_sizes(sizes: list[int]) -> list[Stratum]:
    return [
        tuple(f"s{number}/{index}" for index in range(size)) for number, size in enumerate(sizes)
    ]


@given(sizes=SIZES, first=st.integers(1, 250), more=st.integers(0, 250))
def test_a_larger_sample_keeps_what_a_smaller_one_drew(
    sizes: list[int], first: int, more: int
) -> None:
    strata = strata_of_sizes(sizes)
    small = [reply.reply_id for reply in draw_sample(strata, first)]
    large = [reply.reply_id for reply in draw_sample(strata, first + more)]

    assert large[: len(small)] == small
    assert len(small) == len(set(small)) == min(first, sum(sizes))


@given(sizes=SIZES, size=st.integers(1, 250))
def test_weights_count_the_whole_population(sizes: list[int], size: int) -> None:
    sample = draw_sample(strata_of_sizes(sizes), size)
    counted = sum(1 / reply.inclusion_probability for reply in sample)

    if size >= len(sizes):
        assert counted == pytest.approx(sum(sizes))


def test_with_less_room_than_strata_the_probabilities_are_those_of_the_draw() -> None:
    # Which stratum comes first is chance: over all orders the mean of 1/p is the population.
    sizes = {"a": 2, "b": 6, "c": 1}
    strata = {name: tuple(name * (i + 1) for i in range(n)) for name, n in sizes.items()}
    weights = []
    for order in ("abc", "bca", "cab"):
        sample = draw_sample([strata[name] for name in order], 1)
        weights.append(sum(1 / reply.inclusion_probability for reply in sample))

    assert sum(weights) / 3 == pytest.approx(9)


def test_every_reply_of_a_stratum_is_equally_likely(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run", bases={"parks": 6})
    hits: Counter[str] = Counter()
    for seed in range(300):
        from knowgate.offline_eval.judging.labelling._criteria import strata_of

        hits.update(r.reply_id for r in draw_sample(strata_of(run, seed), 4))

    # Twelve replies, four places: 100 hits each, with a standard deviation of 8.2.
    assert len(hits) == 12
    assert all(70 <= number <= 130 for number in hits.values())


def test_a_grown_sample_puts_new_replies_into_a_new_batch(run: RepliesRun) -> None:
    small = open_sample(run, size=6)
    large = open_sample(run, size=10)

    assert [r.reply_id for r in large.replies][:6] == [r.reply_id for r in small.replies]
    assert [r.batch for r in large.replies] == [0] * 6 + [1] * 4
    assert sum(1 / r.inclusion_probability for r in large.replies) == pytest.approx(32)


def test_annotators_who_start_at_once_get_one_sample(run: RepliesRun) -> None:
    found = []
    threads = [
        threading.Thread(target=lambda size=size: found.append(open_sample(run, size=size)))
        for size in (9, 9, 9, 9)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 4
    assert all(sample == found[0] for sample in found)


def test_factuality_is_asked_of_replies_that_do_not_abstain() -> None:
    found = load_criterion("factuality")

    assert found.outcomes == Judgement.TIERS
    assert found.ordinal
    assert found.only_where == {"abstention": ("no",)}


def test_a_criterion_is_asked_after_those_that_it_waits_for() -> None:
    abstention, factuality = load_criterion("abstention"), load_criterion("factuality")

    assert in_asking_order([factuality, abstention]) == (abstention, factuality)
    assert in_asking_order([factuality]) == (factuality,)


def test_a_file_of_labels_serves_for_judges_and_the_other_way_round(tmp_path: Path) -> None:
    path = tmp_path / "TONE.TOML"
    path.write_text(
        'question = "Is it friendly?"\nmeanings = ["warm", "cold"]\nordinal = true\n'
        'name = "tone"\nprompt = "tone.txt"\noutcomes = ["friendly", "curt"]\n',
        encoding="utf-8",
    )
    (tmp_path / "tone.txt").write_text("Is it friendly?\n", encoding="utf-8")

    assert Criterion.read(path).outcomes == load_criterion(path).outcomes == ("friendly", "curt")
