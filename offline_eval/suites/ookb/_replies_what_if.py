"""What other thresholds would have done with the cases of a run of replies.

    rows (signals, route) + policy ─► what passes at another threshold
    reply of the same system without a guard, and its verdict ─► which replies are then wrong

A figure that the stored rows do not determine is left out, and the reader is told why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ....guard.decision import Reason, Route
from ....guard.policy import Policy
from ....guard.routing import Signals, decide_route
from ...report import CASCADE_WITHOUT_WHAT_IF, Section, WhatIf, WhatIfCase, counted
from ...run import ReplyRow, ReplySystem
from ._replies_evidence import Evidence, JudgedReply
from ._replies_names import OFF

_TITLE = "What if the threshold were another?"
# Beyond these the page would grow too large.
_MOST_CASES = 2500
# Share of the cases whose reply at another threshold may be unknown.
_MOST_UNKNOWN = 0.1
# Abstentions that a threshold can change; any other reason holds at all thresholds.
_BY_THRESHOLD = frozenset(
    (
        Reason.INSUFFICIENT_CONTEXT,
        Reason.OTHER_LANGUAGE,
        Reason.NEITHER_KNOWS,
        Reason.NOTHING_RETRIEVED,
    )
)
_NO_POLICY = (
    "The run does not hold the policy of this guard, so it is not known what another threshold "
    "would have done. Runs that are made by this version hold it."
)
_CONFLICT = (
    "This policy compares answers with each other, and the run holds no such comparison for cases "
    "that were abstained from, so it is not known what another threshold would have done."
)
_NO_TWIN = "this run has no replies of the same system without a guard (add --guard off)"
_REMOVES = "this policy removes passages, and the replies without a guard are to all passages"
_NO_MEMORY = "this run has no replies without passages (add --retrieval direct and --guard off)"


def replies_what_if(evidence: Evidence, names: Mapping[str, str]) -> Section | None:
    """Let a reader try other thresholds on each system with a guard; None without any.

    Args:
        evidence: the judged replies.
        names: of systems, by id.
    """
    guarded = [one for one in evidence.run.systems.values() if one.guard != OFF]
    replies: dict[str, list[JudgedReply]] = {}
    for reply in evidence.replies:
        replies.setdefault(reply.system.system_id, []).append(reply)
    parts: list[Section] = []
    room, without = _MOST_CASES, list[str]()
    for system in guarded:
        own = [one for one in replies.get(system.system_id, ()) if one.case.held_out is not False]
        if not own:
            continue
        name = names[system.system_id]
        if parts and len(own) > room:
            without.append(name)
            continue
        block = _what_if(evidence, system, own)
        if isinstance(block, WhatIf):
            room -= len(own)
        parts.append(Section("" if len(guarded) == 1 else name, (block,)))
    if without:
        line = f"Left out, so that the page stays small: {', '.join(without)}."
        parts.append(Section("", (line,)))
    return Section(_TITLE, tuple(parts)) if parts else None


def _what_if(
    evidence: Evidence, system: ReplySystem, replies: Sequence[JudgedReply]
) -> WhatIf | str:
    policy = evidence.run.policies.get(system.guard)
    if policy is None:
        return _NO_POLICY
    if policy.scorer.stages:
        return CASCADE_WITHOUT_WHAT_IF
    if policy.check_conflict and policy.may_follow:
        return _CONFLICT
    known = _Known.of(evidence, system, policy)
    cases = [known.case(reply) for reply in replies]
    other = sum(
        _route(policy, case) is not reply.row.route
        for case, reply in zip(cases, replies, strict=True)
    )
    if other:
        return (
            f"The stored decisions on {counted(other, 'case')} do not follow from the stored "
            "signals and policy, so it is not known what another threshold would have done."
        )
    unseen = any(one.case.held_out for one in replies)
    told = [case for case in cases if known.is_told(case)]
    why = known.why_untold(len(cases) - len(told), len(cases))
    block = WhatIf(
        cases=tuple(told if not why else cases),
        policy=policy,
        which="Held-out questions" if unseen else "All replies that did not end in an error",
        leave_one_out=True,
        replies=not why,
        # Where relevance sufficed, confidence was not measured.
        strictest=policy.relevance_threshold if known.answers and policy.may_follow else None,
        notes=_notes(why, len(cases) - len(told), limited=known.answers and policy.may_follow),
    )
    if not block.sliders:
        return "No case has a signal that another threshold could be compared with."
    return block


def _notes(why: str, untold: int, *, limited: bool) -> tuple[str, ...]:
    if why:
        lines = [
            "Which replies would be wrong at another threshold is not known and not shown, "
            f"because {why}. In the cost each leak counts as a wrong reply, and an abstention in "
            "the words of the model’s reply does not count."
        ]
    else:
        lines = [
            "Where another threshold lets a case through, the reply is that of the same system "
            "without a guard, with the verdict that it was given."
        ]
        if untold:
            lines.append(
                f"{counted(untold, 'case')} without such a reply or verdict are left out here."
            )
    if limited:
        lines.append(
            "Above the policy’s own relevance threshold nothing is shown: for cases that pass it, "
            "confidence was not measured."
        )
    return tuple(lines)


@dataclass(frozen=True, slots=True)
class _Known:
    """What a run knows of the replies that a system gives at other thresholds.

    Attributes:
        follows: whether the policy may follow the context.
        answers: whether it may answer from memory.
        same_context: the guard hands over all passages, so that the reply without a guard is to
            the same prompt.
        context: replies of the same system without a guard, by case.
        memory: replies of the same model without passages, by question.
    """

    follows: bool
    answers: bool
    same_context: bool
    context: Mapping[str, JudgedReply]
    memory: Mapping[str, JudgedReply]

    @classmethod
    def of(cls, evidence: Evidence, system: ReplySystem, policy: Policy) -> _Known:
        """Collect the replies without a guard."""
        bare = [one for one in evidence.replies if one.system.guard == OFF]
        alone = _unguarded(system)
        return cls(
            follows=policy.may_follow,
            answers=policy.may_answer,
            same_context=system.replayed or policy.kept_margin is None,
            context={one.case.case_id: one for one in bare if _unguarded(one.system) == alone},
            memory={
                one.case.question_id: one
                for one in bare
                if (one.system.model, one.system.prompt) == (system.model, system.prompt)
                and one.row.context is not None
                and one.row.context.kind == "none"
            },
        )

    def case(self, reply: JudgedReply) -> WhatIfCase:
        """Return a case with its signals, and the reply of each route as far as it is known."""
        row, there = reply.row, not reply.out_of_kb
        twin = self.context.get(row.case_id)
        fixed = row.route is Route.ABSTAIN and row.reason not in _BY_THRESHOLD
        context = twin if self.same_context else None
        memory = self.memory.get(reply.case.question_id) if self.answers else None
        if row.route is Route.FOLLOW_CONTEXT:
            context = reply
        elif row.route is Route.ANSWER:
            memory = reply
        return WhatIfCase(
            name=row.case_id,
            question=reply.question.question,
            # Without signals the guard abstains at every threshold.
            relevance=None if fixed else row.relevance,
            confidence=None if fixed else row.confidence,
            context_right=there,
            memory_right=there and self.answers,
            nothing_retrieved=_found_nothing(row, twin),
            context_reply=_replied(context),
            memory_reply=_replied(memory),
        )

    def is_told(self, case: WhatIfCase) -> bool:
        """Whether the reply of every route that some threshold leads to is known and judged."""
        follows = self.follows and case.relevance is not None and not case.nothing_retrieved
        answers = self.answers and case.confidence is not None
        return not (follows and case.context_reply is None) and not (
            answers and case.memory_reply is None
        )

    def why_untold(self, untold: int, cases: int) -> str:
        """Say why replies at other thresholds are not known; empty where enough of them are."""
        if untold <= _MOST_UNKNOWN * cases:
            return ""
        if self.follows and not self.same_context:
            return _REMOVES
        if self.follows and not self.context:
            return _NO_TWIN
        if self.answers and not self.memory:
            return _NO_MEMORY
        return f"{untold} of {counted(cases, 'case')} lack a reply without a guard or its verdict"


def _unguarded(system: ReplySystem) -> ReplySystem:
    return system.model_copy(update={"system_id": "-", "guard": OFF, "guard_sha256": ""})


def _found_nothing(row: ReplyRow, twin: JudgedReply | None) -> bool:
    if row.route is not Route.ANSWER:
        return row.reason == Reason.NOTHING_RETRIEVED
    # The context of an answer from memory is empty in any case.
    shown = None if twin is None else twin.row.context
    empty = shown is None or (shown.kind == "passages" and not shown.passages)
    return row.relevance == 0.0 and empty


def _replied(reply: JudgedReply | None) -> Literal["right", "wrong", "abstained"] | None:
    if reply is None or reply.wrong is None:
        return None
    if reply.abstained:
        return "abstained"
    return "wrong" if reply.wrong else "right"


def _route(policy: Policy, case: WhatIfCase) -> Route:
    signals = Signals.replay(
        policy,
        case.relevance,
        case.confidence,
        nothing_retrieved=case.nothing_retrieved,
    )
    return decide_route(policy, signals).route
