"""Policy files that hang their reader, and copies of what holds locks.

Every number of a certified policy becomes enormous, and every list long, with a new digest.
"""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableLambda

from knowgate import Guard, GuardedRAG, Policy
from knowgate.guard.errors import InputError, KnowgateError
from knowgate.guard.testing import FakeScorer

from .certificates import certified, numbers
from .outcome import Outcome, tally

_MOST_SECONDS = 1.0
_VALUES = (10**12, 10**10, 1e308, -1e308, 10**400, -1, 5e-324, float("nan"), float("inf"))
# What decides, and is no evidence: of another one nothing was certified.
_DECIDES = frozenset({"scorer", "relevance_calibrator", "relevance_threshold"})
_LONGEST = 2**21


def attacks(folder: Path, full: bool) -> Iterator[Outcome]:
    """Load policies that were made large; copy guards and chains."""
    stored = json.loads(certified(full=full).to_json())
    path = folder / "policy.json"
    cases: list[tuple[str, tuple[tuple[Any, ...], Any]]] = [
        (f"{'/'.join(map(str, place))} = {value:.3g}" if value != 10**400 else f"{place} = 1e400",
         (place, value))
        for place in numbers(stored)
        for value in _VALUES
    ]  # fmt: skip
    cases += [(f"{'/'.join(map(str, place))} is long", (place, None)) for place in _lists(stored)]

    def passes(case: tuple[tuple[Any, ...], Any]) -> bool:
        place, value = case
        _write(path, stored, place, value)
        started = time.process_time()
        try:
            found = Policy.load(path)
        except InputError as error:
            counted = "\n" in str(error)
        except Exception:  # noqa: BLE001 - what no file may raise
            counted = True
        else:
            promises = found.guarantee is not None and found.guarantee.certified
            counted = promises and place[0] in _DECIDES
        return counted or time.process_time() - started > _MOST_SECONDS

    yield tally("policy file that hangs or deceives", cases if full else cases[::9], passes)
    yield copies()


def _write(path: Path, stored: dict[str, Any], place: tuple[Any, ...], value: Any) -> None:
    """Write the policy with another value in one place; None repeats the list that is there."""
    changed = holder = json.loads(json.dumps(stored))
    for key in place[:-1]:
        holder = holder[key]
    if value is None:
        item = holder[place[-1]]
        holder[place[-1]] = item * (_LONGEST // (len(json.dumps(item)) + 1))
    else:
        holder[place[-1]] = value
    changed.pop("digest", None)
    hashed = {name: one for name, one in changed.items() if name != "created_by"}
    text = json.dumps(hashed, sort_keys=True, separators=(",", ":"))
    digest = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    path.write_text(json.dumps({**changed, "digest": digest}), encoding="utf-8")


def _lists(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, list) and value:
        yield place
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _lists(inner, (*place, key))


def copies() -> Outcome:
    """Copy and pickle a guard and chains: a copy that works, or an error that says what to do."""
    scorer = FakeScorer({"nine": 0.9})
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
    guard = Guard(policy, scorer=scorer, metrics=False)
    chain = GuardedRAG(
        guard=guard,
        retriever=RunnableLambda(lambda question: ["nine"]),
        with_context=RunnableLambda(lambda given: "said"),
    )
    given = {"guard": guard, "chain": chain, "bound chain": chain.with_config(tags=["a"])}
    ways: dict[str, Callable[[Any], Any]] = {
        "copy": copy.copy,
        "deepcopy": copy.deepcopy,
        "pickle": lambda one: pickle.loads(pickle.dumps(one)),
    }

    def fails(case: tuple[Any, Callable[[Any], Any]]) -> bool:
        original, way = case
        try:
            found = way(original)
        except KnowgateError as error:
            return "\n" in str(error)
        except Exception:  # noqa: BLE001 - counted
            return True
        if isinstance(found, Guard):
            return found.decide("When?", ["nine"]).route != "follow_context"
        return str(found.invoke("When?").answer) != "said"

    cases = [
        (f"{name}, {way_name}", (one, way))
        for name, one in given.items()
        for way_name, way in ways.items()
    ]
    return tally("copies of guards and chains that fail untold", cases, fails)
