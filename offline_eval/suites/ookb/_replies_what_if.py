"""What other thresholds would have done with the cases of a run of replies.

    rows (signals, route) + policy ─► what passes at another threshold
    reply of the same system without a guard, and its verdict ─► which replies are then wrong

A figure that the stored rows do not determine is left out, and the reader is told why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from ....guard.decision import Reason, Route
from ....guard.policy import Policy
from ...report.cascade import cascade_without_what_if
from ...report.document import Section
from ...report.prose import Templates
from ...report.what_if import WhatIf, WhatIfCase
from ...run.grouping import grouped
from ...run.replies import ReplySystem
from .replies import OFF, Evidence, RatedReply

REPLIES_WORDS = Templates(Path(__file__).parent / "replies.txt")
_TITLE = "What if the threshold were another?"
# Beyond these the page would grow too large.
_MAX_CASES = 2500
# Share of the cases whose reply at another threshold may be unknown.
_MAX_UNKNOWN = 0.1
# Abstentions that a threshold can change; any other reason holds at all thresholds.
_BY_THRESHOLD = frozenset(
    (
        Reason.INSUFFICIENT_CONTEXT,
        Reason.OTHER_LANGUAGE,
        Reason.NEITHER_KNOWS,
        Reason.NOTHING_RETRIEVED,
    )
)


def replies_what_if(evidence: Evidence, names: Mapping[str, str]) -> Section | None:
    """Let a reader try other thresholds on each system with a guard; None without any.

    Args:
        evidence: the judged replies.
        names: of systems, by id.
    """
    guarded = [one for one in evidence.run.systems.values() if one.guard != OFF]
    parts: list[Section] = []
    room, without = _MAX_CASES, list[str]()
    unseen = [one for one in evidence.replies if one.case.held_out is not False]
    by_system = grouped(unseen, lambda one: one.system.system_id)
    for system in guarded:
        own, name = by_system.get(system.system_id, []), names[system.system_id]
        if parts and len(own) > room:
            without.append(name)
        elif own:
            block = _what_if(evidence, system, own)
            room -= len(own) if isinstance(block, WhatIf) else 0
            parts.append(Section("" if len(guarded) == 1 else name, (block,)))
    if without:
        line = f"Left out, so that the page stays small: {', '.join(without)}."
        parts.append(Section("", (line,)))
    return Section(_TITLE, tuple(parts)) if parts else None


def _what_if(
    evidence: Evidence, system: ReplySystem, replies: Sequence[RatedReply]
) -> WhatIf | str:
    policy = evidence.run.policies.get(system.guard)
    if policy is None:
        return REPLIES_WORDS.text("no_policy")
    if policy.scorer.stages:
        return cascade_without_what_if()
    if policy.check_conflict and policy.may_follow:
        return REPLIES_WORDS.text("compares_answers")
    twins, memory = _unguarded_replies(evidence, system)
    # The guard hands over all passages: the reply without one is to the same prompt.
    same_context = system.replayed or policy.kept_margin is None
    cases = []
    for reply in replies:
        twin, from_memory = twins.get(reply.row.case_id), memory.get(reply.case.question_id)
        context = twin if same_context else None
        cases.append(_case(reply, policy, context, from_memory, empty=_found_nothing(reply, twin)))
    pairs = zip(cases, replies, strict=True)
    if other := sum(case.route(policy) is not reply.row.route for case, reply in pairs):
        return REPLIES_WORDS.text("other_decisions", other)
    whole = [case for case in cases if _has_all(case, policy)]
    unknown, why = len(cases) - len(whole), ""
    if unknown > _MAX_UNKNOWN * len(cases):
        reasons = {
            "removes passages": policy.may_follow and not same_context,
            "no twin": policy.may_follow and not twins,
            "no memory": policy.may_answer and not memory,
            "not judged": True,
        }
        why = next(name for name, holds in reasons.items() if holds)
    # Where relevance sufficed, confidence was not measured.
    limited = policy.may_answer and policy.may_follow
    unseen = any(one.case.held_out for one in replies)
    block = WhatIf(
        cases=tuple(cases if why else whole),
        policy=policy,
        which="Held-out questions" if unseen else "All replies that did not end in an error",
        leave_one_out=True,
        replies=not why,
        strictest=policy.relevance_threshold if limited else None,
        notes=tuple(REPLIES_WORDS.paragraphs("other_replies", why, unknown, len(cases), limited)),
    )
    return block if block.sliders else REPLIES_WORDS.text("no_signal")


def _unguarded_replies(
    evidence: Evidence, system: ReplySystem
) -> tuple[dict[str, RatedReply], dict[str, RatedReply]]:
    """Return what the run knows of replies at other thresholds.

    Returns:
        Replies of the same system without a guard by case, and of the same model without
        passages by question.
    """
    bare = [one for one in evidence.replies if one.system.guard == OFF]
    alone, of = _unguarded(system), (system.model, system.prompt)
    twins = {one.case.case_id: one for one in bare if _unguarded(one.system) == alone}
    none = [one for one in bare if one.row.context is not None and one.row.context.kind == "none"]
    memory = [one for one in none if (one.system.model, one.system.prompt) == of]
    return twins, {one.case.question_id: one for one in memory}


def _case(
    reply: RatedReply,
    policy: Policy,
    context: RatedReply | None,
    memory: RatedReply | None,
    *,
    empty: bool,
) -> WhatIfCase:
    """Return a case with its signals, and the reply of each route as far as it is known."""
    row, there, answers = reply.row, not reply.out_of_kb, policy.may_answer
    # Without signals the guard abstains at every threshold.
    fixed = row.route is Route.ABSTAIN and row.reason not in _BY_THRESHOLD
    if row.route is Route.FOLLOW_CONTEXT:
        context = reply
    elif row.route is Route.ANSWER:
        memory = reply
    return WhatIfCase(
        name=row.case_id,
        question=reply.question.question,
        relevance=None if fixed else row.relevance,
        confidence=None if fixed else row.confidence,
        context_right=there,
        memory_right=there and answers,
        nothing_retrieved=empty,
        context_reply=_replied(context),
        memory_reply=_replied(memory) if answers else None,
    )


def _has_all(case: WhatIfCase, policy: Policy) -> bool:
    """Whether the reply of every route that some threshold leads to is known and judged."""
    judged = case.relevance is not None and not case.nothing_retrieved
    follows = policy.may_follow and judged and case.context_reply is None
    confident = policy.may_answer and case.confidence is not None
    return not follows and not (confident and case.memory_reply is None)


def _unguarded(system: ReplySystem) -> ReplySystem:
    return system.model_copy(update={"system_id": "-", "guard": OFF, "guard_sha256": ""})


def _found_nothing(reply: RatedReply, twin: RatedReply | None) -> bool:
    row = reply.row
    if row.route is not Route.ANSWER:
        return row.reason == Reason.NOTHING_RETRIEVED
    # The context of an answer from memory is empty in any case.
    shown = None if twin is None else twin.row.context
    empty = shown is None or (shown.kind == "passages" and not shown.passages)
    return row.relevance == 0.0 and empty


def _replied(reply: RatedReply | None) -> Literal["right", "wrong", "abstained"] | None:
    if reply is None or reply.wrong is None:
        return None
    if reply.abstained:
        return "abstained"
    return "wrong" if reply.wrong else "right"
