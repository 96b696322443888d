"""The numbers of a log of decisions: what enforcing changes, and whether that is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from ...calibration import Interval, mcnemar_p_value
from ...guard.decision import Mode, Route
from ..report import CascadeStages, Document
from ._shadow_log import Label, LoggedDecision, ShadowLog, last_by_question

# Above this share the other numbers say little.
MOST_FAILED = 0.05
_MOST_PERIODS = 48
_PERIODS = tuple(timedelta(minutes=m) for m in (1, 5, 15, 60, 360, 1440, 10_080))


@dataclass(frozen=True, slots=True)
class Period:
    """A stretch of time.

    Attributes:
        begin: of it.
        abstention: share of its decisions that abstain.
        decisions: in it.
    """

    begin: datetime
    abstention: Interval
    decisions: int


@dataclass(frozen=True, slots=True)
class Labelled:
    """The numbers that need labels; shares over labelled decisions.

    Attributes:
        questions: with a label.
        contradictory: questions whose labels contradict each other, left out.
        unmatched: labelled questions that are not in the log.
        leak: of unanswerable questions, how many would be let through.
        false_abstention: of answerable ones, how many would be abstained from.
        wrong_now: shown replies that are wrong.
        wrong_then: of those that following the context would leave, how many are wrong.
        wrong_caught: of wrong replies, how many an abstention would replace.
        right_lost: of right replies, likewise.
    """

    questions: int
    contradictory: int
    unmatched: int
    leak: Interval
    false_abstention: Interval
    wrong_now: Interval
    wrong_then: Interval
    wrong_caught: Interval
    right_lost: Interval

    @property
    def shares(self) -> dict[str, Interval]:
        """The shares by name."""
        return {
            name: value
            for name in self.__dataclass_fields__
            if isinstance(value := getattr(self, name), Interval)
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """Decisions on the same questions by another log.

    Attributes:
        made_by: guard and policy of the other log.
        questions: that both decided; the last decision on each counts.
        only_here: abstained from here and not there.
        only_there: the other way round.
        difference: share abstained from here minus there.
        p_value: McNemar's, that both abstain equally often.
    """

    made_by: tuple[str, str]
    questions: int
    only_here: int
    only_there: int
    difference: Interval
    p_value: float

    @classmethod
    def of(cls, here: ShadowLog, there: ShadowLog) -> Comparison:
        """Compare two logs."""
        others = dict(last_by_question(there.decisions))
        pairs = [
            (one.route is Route.ABSTAIN, others[name].route is Route.ABSTAIN)
            for name, one in last_by_question(here.decisions)
            if name in others
        ]
        first, second = [a for a, _ in pairs], [b for _, b in pairs]
        only_here = sum(a and not b for a, b in pairs)
        only_there = sum(b and not a for a, b in pairs)
        return cls(
            there.made_by,
            len(pairs),
            only_here,
            only_there,
            Interval.paired_difference(first, second) if pairs else Interval(),
            mcnemar_p_value(only_here, only_there),
        )


@dataclass(frozen=True, slots=True)
class ShadowSummary:
    """What a log says about enforcing.

    Attributes:
        log: that was read.
        questions: different ones, as far as they are known.
        abstention: share of decisions that abstain.
        routes: share of each route.
        reasons: share of all decisions that abstain for each reason, most first.
        changes: shares by what enforcing would do to the reply.
        failed: share of decisions in which something failed.
        lost: decisions that could not be written.
        enforced: decisions that acted already.
        periods: the same over time.
        labelled: None without labels.
        compared: other logs.
        cascade: which scorer decided how often; None unless the guard's scorer is a cascade.
    """

    log: ShadowLog
    questions: int
    abstention: Interval
    routes: dict[str, Interval]
    reasons: dict[str, Interval]
    changes: dict[str, Interval]
    failed: Interval
    lost: int
    enforced: int
    periods: tuple[Period, ...]
    labelled: Labelled | None = None
    compared: tuple[Comparison, ...] = ()
    labels: Mapping[str, Label] = field(default_factory=dict)
    cascade: CascadeStages | None = None

    @classmethod
    def of(
        cls,
        log: ShadowLog,
        labels: tuple[Mapping[str, Label], int, int] | None = None,
        compared: Iterable[ShadowLog] = (),
    ) -> ShadowSummary:
        """Compute the numbers.

        Args:
            log: of one guard.
            labels: as `read_labels` returns them.
            compared: logs of others, or of another time.
        """
        all_of_them = log.decisions
        shares = Shares(all_of_them)
        abstained = [one for one in all_of_them if one.route is Route.ABSTAIN]
        reasons = Counter(one.reason for one in abstained)
        return cls(
            log=log,
            questions=len({one.unit for one in all_of_them}),
            abstention=shares.of([one.route is Route.ABSTAIN for one in all_of_them]),
            routes={
                route.value: shares.of([one.route is route for one in all_of_them])
                for route in Route
            },
            reasons={
                reason: shares.of(
                    [one.route is Route.ABSTAIN and one.reason == reason for one in all_of_them]
                )
                for reason, _ in sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
            },
            changes={
                name: shares.of([change_of(one) == name for one in all_of_them]) for name in CHANGES
            },
            failed=shares.of([one.failed for one in all_of_them]),
            lost=sum(one.lost for one in all_of_them),
            enforced=sum(one.mode is Mode.ENFORCE for one in all_of_them),
            periods=tuple(_periods(all_of_them)),
            labelled=None if labels is None else _labelled(all_of_them, *labels),
            compared=tuple(Comparison.of(log, other) for other in compared),
            labels={} if labels is None else labels[0],
            cascade=CascadeStages.of((one.stage, one.route) for one in all_of_them),
        )

    @property
    def certified(self) -> bool | None:
        """Whether the policy promises anything; None where its file is not there."""
        policy = self.log.policy
        if policy is None:
            return None
        return policy.guarantee is not None and policy.guarantee.certified and not policy.changed

    @property
    def problems(self) -> tuple[str, ...]:
        """Why the log is no reason to enforce the policy; empty where nothing speaks against it."""
        found = []
        if self.certified is None:
            found.append("The file of the policy is not beside the log: what it promises is open.")
        elif not self.certified:
            found.append("The policy certifies nothing: calibrate it before it is enforced.")
        if self.failed.value is not None and self.failed.value > MOST_FAILED:
            found.append(
                "In more than 5 % of the decisions a signal or the retrieval failed, or the input "
                "could not be read: the shares say more about faults than about questions."
            )
        if self.lost:
            found.append(f"{self.lost} decisions could not be written and are missing here.")
        if self.log.cut_off:
            found.append(
                f"The last line of {self.log.cut_off} files is cut off, as a kill or a full disk "
                "leaves it; these decisions are missing here."
            )
        if self.enforced == len(self.log.decisions):
            found.append("All of these decisions acted already: this is no log of shadow mode.")
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: what `report.json` holds."""
        log = self.log
        guard, policy_id = log.made_by
        return {
            "schema_version": Document.SCHEMA_VERSION,
            "guard": guard,
            "policy": policy_id,
            "certified": self.certified,
            "problems": list(self.problems),
            "decisions": len(log.decisions),
            "questions": self.questions,
            "begin": log.decisions[0].time.isoformat(),
            "end": log.decisions[-1].time.isoformat(),
            "enforced": self.enforced,
            "lost": self.lost,
            "cut_off_files": log.cut_off,
            "other_decisions": [
                {"guard": name, "policy": other, "decisions": number}
                for (name, other), number in log.others.items()
            ],
            "abstention": self.abstention.to_dict(),
            "failed": self.failed.to_dict(),
            **{
                name: {key: value.to_dict() for key, value in getattr(self, name).items()}
                for name in ("routes", "reasons", "changes")
            },
            "periods": [
                {
                    "begin": one.begin.isoformat(),
                    "decisions": one.decisions,
                    "abstention": one.abstention.to_dict(),
                }
                for one in self.periods
            ],
            "labels": None if self.labelled is None else _labels_dict(self.labelled),
            "compared": [
                {
                    "guard": one.made_by[0],
                    "policy": one.made_by[1],
                    "questions": one.questions,
                    "only_here": one.only_here,
                    "only_there": one.only_there,
                    "difference": one.difference.to_dict(),
                    "p_value": one.p_value,
                }
                for one in self.compared
            ],
            **({} if self.cascade is None else {"cascade": self.cascade.to_dict()}),
        }


CHANGES = {
    "abstained": "replaced by an abstention",
    "from_memory": "answered from memory, without the passages",
    "fewer_passages": "answered from fewer passages",
    "unchanged": "unchanged",
}


def change_of(decision: LoggedDecision) -> str:
    """What enforcing does to the reply: a key of `CHANGES`."""
    if decision.route is Route.ABSTAIN:
        return "abstained"
    if decision.route is Route.ANSWER:
        return "from_memory"
    return "fewer_passages" if decision.shortened else "unchanged"


class Shares:
    """Shares of decisions with intervals in which a repeated question counts once.

    The interval is Wilson's for n²/Σm² decisions, where m is how often each question was
    asked: as if all decisions on a question were the same, which is nearly so.

    Args:
        decisions: that the shares are of.

    Source: Kish 1965, Survey Sampling, for the effective number.
    """

    def __init__(self, decisions: Sequence[LoggedDecision]) -> None:
        self._units: list[Hashable] = [one.unit for one in decisions]

    def of(self, chosen: Sequence[bool]) -> Interval:
        """Share of the decisions that are chosen; undefined without any decision."""
        n = len(self._units)
        if not n:
            return Interval()
        times = Counter(self._units).values()
        effective = max(1, n * n // sum(m * m for m in times))
        share = sum(chosen) / n
        seen = Interval.wilson(round(share * effective), effective)
        assert seen.low is not None
        assert seen.high is not None
        return Interval(share, min(seen.low, share), max(seen.high, share), effective)


def _periods(decisions: Sequence[LoggedDecision]) -> Iterable[Period]:
    """Cut the time into periods of one length, at most 48 of them."""
    whole = decisions[-1].time - decisions[0].time
    length = next((one for one in _PERIODS if whole / one < _MOST_PERIODS), _PERIODS[-1])
    parts: dict[int, list[LoggedDecision]] = {}
    for one in decisions:
        parts.setdefault(int(one.time.timestamp() // length.total_seconds()), []).append(one)
    for number, part in sorted(parts.items()):
        yield Period(
            datetime.fromtimestamp(number * length.total_seconds(), UTC),
            Shares(part).of([one.route is Route.ABSTAIN for one in part]),
            len(part),
        )


def _labelled(
    decisions: Sequence[LoggedDecision],
    labels: Mapping[str, Label],
    contradictory: int,
    unmatched: int,
) -> Labelled:
    known = [(one, labels[one.question_id]) for one in decisions if one.question_id in labels]  # type: ignore[index]

    def share(among: Sequence[tuple[LoggedDecision, bool]]) -> Interval:
        return Shares([one for one, _ in among]).of([chosen for _, chosen in among])

    def abstained(which: str, value: bool) -> list[tuple[LoggedDecision, bool]]:
        return [
            (one, one.route is Route.ABSTAIN)
            for one, label in known
            if getattr(label, which) is value
        ]

    judged = [(one, not label.right) for one, label in known if label.right is not None]
    return Labelled(
        questions=len(labels),
        contradictory=contradictory,
        unmatched=unmatched,
        leak=share([(one, not flag) for one, flag in abstained("answerable", False)]),
        false_abstention=share(abstained("answerable", True)),
        wrong_now=share(judged),
        wrong_then=share([pair for pair in judged if pair[0].route is Route.FOLLOW_CONTEXT]),
        wrong_caught=share(abstained("right", False)),
        right_lost=share(abstained("right", True)),
    )


def _labels_dict(labelled: Labelled) -> dict[str, Any]:
    counts = {name: getattr(labelled, name) for name in ("questions", "contradictory", "unmatched")}
    return counts | {name: share.to_dict() for name, share in labelled.shares.items()}
