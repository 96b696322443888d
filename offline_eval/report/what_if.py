"""What other thresholds would have done with the measured cases.

    cases, policy ─┬─ a table of some thresholds      (page and Markdown)
                   └─ the same cases as JSON ─► sliders, where the page may run its script

The page's script decides each case as `decide_route` does, and adds up the same numbers in
the same order.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from ...guard.decision import Route
from ...guard.policy import Policy
from ...guard.routing import Signals, decide_route
from .prose import Templates
from .tables import Cell, Line, Table
from .text import UNKNOWN, one_line, percent

_WORDS = Templates(Path(__file__).parent / "templates" / "what_if.txt")
_ROWS = 11
_QUESTION_LIMIT = 140
# Of more cases the page lists names alone, so that it stays small.
_MAX_WITH_TEXT = 5000

Replied = Literal["right", "wrong", "abstained"]


@dataclass(frozen=True, slots=True)
class WhatIfCase:
    """A measured case, and which replies to it would be right.

    Attributes:
        relevance: on the scale of the policy's threshold; None where it failed.
        confidence: likewise; None where it was not measured.
        context_right: whether the reply from the context is right.
        memory_right: whether the reply from memory is right.
        conflict: whether the replies that the policy compares differ; None: not measured.
        nothing_retrieved: there was no passage.
        missed: counts in coverage alone: the retriever did not find the answer, or a review
            found it in another passage.
        weight: how much the case counts.
        context_reply: what the stored reply from the context is; None where none is stored.
        memory_reply: likewise from memory.
        name: of the case; not needed for a table.
        question: that was asked; may be empty.
    """

    relevance: float | None
    confidence: float | None
    context_right: bool
    memory_right: bool = False
    conflict: bool | None = None
    nothing_retrieved: bool = False
    missed: bool = False
    weight: float = 1.0
    context_reply: Replied | None = None
    memory_reply: Replied | None = None
    name: str = ""
    question: str = ""

    @property
    def answerable(self) -> bool:
        """Whether a right reply is possible."""
        return self.context_right or self.memory_right

    def route(self, policy: Policy) -> Route:
        """Decide the case as the policy does."""
        measured = self.relevance, self.confidence, self.conflict
        signals = Signals.replay(policy, *measured, nothing_retrieved=self.nothing_retrieved)
        return decide_route(policy, signals).route

    def replied(self, route: Route, *, stored: bool) -> Replied:
        """What the user gets by a route: of the stored replies, or as far as signals tell."""
        if route is Route.ABSTAIN:
            return "abstained"
        follows = route is Route.FOLLOW_CONTEXT
        if stored:
            return (self.context_reply if follows else self.memory_reply) or "right"
        return "right" if (self.context_right if follows else self.memory_right) else "wrong"


# What a pair of thresholds does with the cases, each as a part and its whole.
#
# leak: of the cases without a right reply, those let through; false_abstention: of the cases with a
# right reply, those abstained from; coverage: of all cases, those let through; wrong: of those let
# through, the ones with a wrong reply; wrong_missing and wrong_there: of the cases without and with
# a right reply, those with a wrong one.
Outcomes = dict[str, tuple[float, float]]


def share(of: tuple[float, float]) -> float | None:
    """A part of its whole; None where that is empty."""
    part, whole = of
    return part / whole if whole else None


def cost_of(
    found: Outcomes, wrong: float, abstention: float, unanswerable: float | None = None
) -> float | None:
    """Expected cost of a question.

    Args:
        found: at a pair of thresholds.
        wrong: price of a wrong reply that is let through.
        abstention: price of a false abstention.
        unanswerable: share of questions without an answer; None: as among the cases.
    """
    if unanswerable is None:
        spent = wrong * found["wrong"][0] + abstention * found["false_abstention"][0]
        return share((spent, found["coverage"][1]))
    missing, there = share(found["wrong_missing"]), share(found["wrong_there"])
    needless = share(found["false_abstention"])
    if missing is None or there is None or needless is None:
        return None
    answerable = 1 - unanswerable
    return unanswerable * missing * wrong + answerable * (there * wrong + needless * abstention)


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The cases that a reader may try other thresholds on.

    Attributes:
        cases: measured; those of the reported rates.
        policy: whose thresholds are the point to compare with; without any, and without a
            guarantee, there is no such point.
        which: cases these are, as the start of a sentence.
        leave_one_out: each question was asked with and without its source; otherwise what
            counts is whether the replies were right.
        scale: what the relevance threshold is a value of.
        replies: the cases have the reply of each route that a threshold can lead to, and these
            tell what is wrong and what is an abstention.
        notes: paragraphs for the reader.
        PRICES: of a wrong reply and of a false abstention, until the reader names others.
        UNANSWERABLE: share of users' questions without an answer, likewise; in a leave-one-out
            run it is one half.
    """

    PRICES: ClassVar = (10.0, 1.0)
    UNANSWERABLE: ClassVar = 0.5

    cases: tuple[WhatIfCase, ...]
    policy: Policy
    which: str
    leave_one_out: bool
    scale: str = "relevance"
    replies: bool = False
    notes: tuple[str, ...] = ()

    @property
    def certified(self) -> bool:
        """Whether the policy's point is certified; a certified policy may also let nothing pass."""
        found = self.policy.guarantee
        return found is not None and found.certified and not self.policy.changed

    @property
    def has_point(self) -> bool:
        """Whether there is a policy to compare with."""
        return self.policy.may_follow or self.policy.may_answer or self.policy.calibrated

    @property
    def point_name(self) -> str:
        """What the point to compare with is called."""
        return _WORDS.text("point", self)

    @property
    def moving(self) -> dict[str, str]:
        """The thresholds that can be moved: key, and what it is called."""
        words = _WORDS.meanings("moving", self).items()
        return {signal: text for signal, text in words if len(self.stops(signal)) > 1}

    def stops(self, signal: str) -> list[float | None]:
        """Thresholds at which something changes, from lax to strict; None lets nothing pass."""
        route = Route.FOLLOW_CONTEXT if signal == "relevance" else Route.ANSWER
        if route not in self.policy.allowed_routes:
            return []
        measured = [
            case for case in self.cases if signal != "relevance" or not case.nothing_retrieved
        ]
        values = {getattr(case, signal) for case in measured} - {None}
        if values:
            values |= {getattr(self.policy, f"{signal}_threshold")} - {None}
        return [*sorted(values), None]

    @property
    def start(self) -> tuple[float | None, float | None]:
        """Thresholds that are shown first: the policy's, or those that cost least."""
        policy = self.policy
        if self.has_point:
            return policy.relevance_threshold, policy.confidence_threshold
        stops = _some(self.stops("relevance"), 10 * _ROWS)
        return min(stops, key=lambda stop: self._cost(self.at(stop, None)) or 0.0), None

    def at(self, relevance: float | None, confidence: float | None) -> Outcomes:
        """Decide every case with these thresholds; None lets nothing pass."""
        policy = self.policy.model_copy(
            update={"relevance_threshold": relevance, "confidence_threshold": confidence}
        )
        # Weights by what happens; of some also by whether there is a right reply.
        sums: dict[Any, float] = defaultdict(float)
        for case in self.cases:
            route = case.route(policy)
            passes, weight, side = route is not Route.ABSTAIN, case.weight, case.answerable
            sums["every"] += weight
            sums["passed"] += weight * passes
            if case.missed:
                continue
            reply = case.replied(route, stored=self.replies)
            sums["wrong"] += weight * (reply == "wrong")
            sums[side, "all"] += weight
            sums[side, "passed"] += weight * passes
            sums[side, "abstained"] += weight * (reply == "abstained")
            sums[side, "wrong"] += weight * (reply == "wrong")
        return {
            "leak": (sums[False, "passed"], sums[False, "all"]),
            "false_abstention": (sums[True, "abstained"], sums[True, "all"]),
            "coverage": (sums["passed"], sums["every"]),
            "wrong": (sums["wrong"], sums["passed"]),
            "wrong_missing": (sums[False, "wrong"], sums[False, "all"]),
            "wrong_there": (sums[True, "wrong"], sums[True, "all"]),
        }

    def _cost(self, outcomes: Outcomes) -> float | None:
        missing = self.UNANSWERABLE if self.leave_one_out else None
        cost = cost_of(outcomes, *self.PRICES, missing)
        return None if cost is None else 100 * cost

    @property
    def measures(self) -> dict[str, str]:
        """What is shown of a point: key, and what it is called."""
        return _WORDS.meanings("measures", self)

    def _table(self, signal: str) -> Table:
        start = dict(zip(("relevance", "confidence"), self.start, strict=True))
        own = start[signal]
        stops = self.stops(signal)
        shown = _some(stops, _ROWS)
        if own not in shown:
            shown = [stop for stop in stops if stop in shown or stop == own]
        columns = ("Threshold", *self.measures.values(), "Cost of 100 questions", "")
        lines = []
        for stop in shown:
            chosen = self.has_point and stop == own
            outcomes = self.at(**(start | {signal: stop}))
            cost = self._cost(outcomes)
            cells = [Cell(percent(share(outcomes[key]))) for key in self.measures]
            cells.append(Cell(UNKNOWN if cost is None else f"{cost:.1f}"))
            state = "certified" if self.certified and chosen else "not certified"
            cells.append(Cell(state, mark="text"))
            lines.append(Line(threshold_text(stop), tuple(cells), "chosen" if chosen else ""))
        notes = (_WORDS.text("prices", self),)
        return Table(columns[0], columns[1:], tuple(lines), self.moving[signal], notes)

    @property
    def data(self) -> str:
        """The cases as JSON, for a script element: no text can end it."""
        relevance, confidence = self.start
        cases, with_text = self.cases, len(self.cases) <= _MAX_WITH_TEXT
        questions = list(dict.fromkeys(case.question for case in cases)) if with_text else []
        measured = any(case.confidence is not None for case in cases)
        weighted = any(case.weight != 1.0 for case in cases)
        places = {question: place for place, question in enumerate(questions)}
        policy = self.policy
        value: dict[str, Any] = {
            "relevance": [_number(case.relevance) for case in cases],
            "confidence": [_number(case.confidence) for case in cases] if measured else None,
            "bits": [_bits(case) for case in cases],
            "weights": [case.weight for case in cases] if weighted else None,
            "names": [_clean(case.name) for case in cases],
            "question": [places[case.question] for case in cases] if with_text else None,
            "questions": [_clean(question) for question in questions],
            "rule": {
                "follow": Route.FOLLOW_CONTEXT in policy.allowed_routes,
                "answer": Route.ANSWER in policy.allowed_routes,
                "conflict": policy.conflict_between if policy.check_conflict else None,
                "abstains": policy.on_conflict == "abstain",
            },
            "stops": {signal: self.stops(signal) for signal in self.moving},
            "point": {"relevance": relevance, "confidence": confidence},
            "hasPoint": self.has_point,
            "certified": self.certified,
            "pointName": self.point_name,
            "leaveOneOut": self.leave_one_out,
            "replies": self.replies,
        }
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        for sign in "<>&\u2028\u2029":
            text = text.replace(sign, f"\\u{ord(sign):04x}")
        return text

    @property
    def intro(self) -> tuple[str, ...]:
        """What a reader must know before moving anything."""
        return (*_WORDS.paragraphs("intro", self), *self.notes)

    @property
    def tables(self) -> tuple[Table, ...]:
        """Some thresholds as a table each; the policy's other threshold stays."""
        return tuple(self._table(signal) for signal in self.moving)

    @property
    def blocks(self) -> tuple[str | Table, ...]:
        """What is shown where nothing can be moved."""
        return (*self.intro, *self.tables)


def threshold_text(value: float | None) -> str:
    """Write a threshold with the digits that tell it from its neighbours."""
    if value is None:
        return "nothing passes"
    return f"{value:.4f}" if 0.0001 <= abs(value) <= 0.9999 or abs(value) >= 1 else f"{value:.7f}"


def _some(stops: Sequence[float | None], most: int) -> list[float | None]:
    """At most so many of the stops, both ends among them, evenly spaced."""
    if len(stops) <= most:
        return list(stops)
    return [stops[round(place * (len(stops) - 1) / (most - 1))] for place in range(most)]


def _number(value: float | None) -> float | None:
    # -0.0 and 0.0 are one threshold.
    return None if value is None else value + 0.0


def _clean(text: str) -> str:
    return one_line(text.encode("utf-8", "replace").decode("utf-8"), _QUESTION_LIMIT)


def _bits(case: WhatIfCase) -> int:
    flags = (
        case.context_right,
        case.memory_right,
        case.nothing_retrieved,
        case.missed,
        case.conflict is True,
        case.conflict is not None,
        case.context_reply == "wrong",
        case.context_reply == "abstained",
        case.memory_reply == "wrong",
        case.memory_reply == "abstained",
    )
    return sum(1 << place for place, flag in enumerate(flags) if flag)


# Of a cascade of two scorers, by which a case can be decided.
_STAGES = ("cheap", "costly", "fallback")


def cascade_counts(decisions: Iterable[tuple[str | None, Route | None]]) -> dict[str, Any] | None:
    """Count how often each stage of a cascade of scorers decided, from pairs of stage and route.

    Returns:
        JSON-ready: all decisions with a measured relevance, those in which the costly scorer was
        asked, those that it was saved, those in which it gave no verdict, and under `stages` the
        decisions by stage, then by route. None where no decision has a stage.
    """
    found = Counter(decisions)
    stages = {name: {route.value: found[name, route] for route in Route} for name in _STAGES}
    totals = {name: sum(by_route.values()) for name, by_route in stages.items()}
    if not any(totals.values()):
        return None
    asked = totals["costly"] + totals["fallback"]
    return {
        "decisions": totals["cheap"] + asked,
        "asked": asked,
        "saved": totals["cheap"],
        "failed": totals["fallback"],
        "stages": stages,
    }


def cascade_without_what_if() -> str:
    """Say why no other threshold of a cascade can be tried."""
    return _WORDS.text("cascade")
