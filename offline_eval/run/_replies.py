"""What the files of a run of replies hold, line by line."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from ...guard.decision import Route
from ._manifest import Manifest, Stored
from ._questions import CaseKind, RowError

HOLDS_REPLIES = "replies"

# Criteria that the report knows; users add their own.
ABSTENTION, FACTUALITY = "abstention", "factuality"
TIERS = ("tier_1", "tier_2", "tier_3")
# Labels that came along with logged replies.
ESTIMATE = "estimate"
GIVEN_JUDGE = "given"

_Name = Annotated[str, Field(min_length=1)]
_Count = Annotated[int, Field(ge=0)]


class ReplySystem(Stored):
    """One system under test: who answered, and how it was asked.

    Attributes:
        system_id: unique in the run, e.g. `gpt-4o·basic_rag·conservative·guard`.
        model: name as given by the user or the log.
        prompt: name of the prompt; empty where unknown.
        prompt_sha256: of its text; empty where unknown.
        retrieval: `direct`, `long_context`, `basic_rag`, `hyde`, a user's own, or empty
            where unknown.
        guard: `off`, or the name of the policy in front.
        guard_sha256: of the policy; empty without one.
        top_k: passages per context, None where that means nothing.
        replayed: the replies were logged elsewhere.
    """

    system_id: _Name
    model: str
    prompt: str = ""
    prompt_sha256: str = ""
    retrieval: str = ""
    guard: str = "off"
    guard_sha256: str = ""
    top_k: int | None = None
    replayed: bool = False


class StoredKnowledgeBase(Stored):
    """A knowledge base that was asked about.

    Attributes:
        name: unique in the run.
        questions: with answers in it.
        passages: different ones.
    """

    name: str
    questions: _Count
    passages: _Count


class RepliesManifest(Manifest):
    """`manifest.json`.

    Attributes:
        holds: always `replies`; a run of relevance signals has no such field.
        systems: all systems under test.
        knowledge_bases: all of them.
        questions: lines of `questions.jsonl`.
        cases: lines of `cases.jsonl`.
        replies: how many rows the run has once it is finished.
    """

    holds: Literal["replies"] = "replies"
    systems: tuple[ReplySystem, ...]
    knowledge_bases: tuple[StoredKnowledgeBase, ...] = ()
    questions: _Count
    cases: _Count
    replies: _Count


class StoredPassage(Stored):
    """A line of `passages.jsonl`: a text that contexts refer to."""

    passage_id: _Name
    text: str
    knowledge_base: str = ""
    source: str | None = None


class ReplyCase(Stored):
    """A line of `cases.jsonl`: one question against one state of the knowledge base.

    Attributes:
        case_id: unique in the run; usually `<question id>/<kind>`.
        kind: what the knowledge base holds of the answer.
        held_out: the guard's policy has not seen the question; None where no guard is
            in the run, or nobody can tell.
    """

    case_id: _Name
    question_id: _Name
    kind: CaseKind
    knowledge_base: str = ""
    held_out: bool | None = None


class ReplyContext(Stored):
    """What a reply was given to read, by reference.

    Attributes:
        kind: `none` (closed book), `passages` (exactly these), `all_but` (the whole
            knowledge base of the case without these), `unknown` (a log that kept none).
        passages: passage ids; for `passages` in the order in which they stood.
    """

    kind: Literal["none", "passages", "all_but", "unknown"] = "unknown"
    passages: tuple[str, ...] = ()


class ReplyRow(Stored):
    """A line of `replies.jsonl`: what one system said to one case.

    Attributes:
        reply_id: `<system id>/<case id>`.
        context: what it was given; None where the call failed before.
        response: its text; None exactly where `error` is set.
        citation: what the reply names as its source, as it stands there.
        route: of the guard, None without one.
        reason: of the guard's decision, empty without one.
        relevance: of the context as the guard saw it, in [0, 1].
        confidence: of the guard in the model's own answer, in [0, 1].
        input_tokens: of all calls made for this reply, None where not metered.
        output_tokens: likewise.
        calls: of language models; 0 where none was needed (a guard that abstained).
        seconds: from the first call's start to the reply; None for logged replies.
        reused: the model said it before to the very same prompt, and was not asked again.
        error: why there is no reply.
    """

    reply_id: _Name
    case_id: _Name
    system_id: _Name
    context: ReplyContext | None = None
    response: str | None = None
    citation: str | None = None
    route: Route | None = None
    reason: str = ""
    relevance: FiniteFloat | None = None
    confidence: FiniteFloat | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    calls: int | None = None
    seconds: FiniteFloat | None = None
    reused: bool = False
    error: RowError | None = None


class Judgement(Stored):
    """A line of `judgements.jsonl`: what one judge made of one reply by one criterion.

    Attributes:
        judgement_id: `<reply id>/<criterion>/<judge>`.
        judge: `given`, `detector`, `estimate`, `llm:<model>` or a name of the user's;
            people's labels are kept apart, see `labelling`.
        criterion: `abstention` (yes, no), `factuality` (tier_1, tier_2, tier_3, or NA for
            a reply that abstained), `failure` (contradiction, fabrication,
            over_specification, none) or the name of a criterion of the user's.
        outcome: one of the criterion's; None exactly where `error` is set.
        probability: of the positive outcome, where the judge gives one.
        reasoning: the judge's words before its verdict, where it gives any.
        estimate: an offline estimate and not a judgement.
        judge_sha256: of the judge's prompt or fingerprint, so that two versions of one
            judge can be told apart.
        error: why there is no outcome.
    """

    judgement_id: _Name
    reply_id: _Name
    judge: _Name
    criterion: _Name
    outcome: str | None = None
    probability: FiniteFloat | None = None
    reasoning: str = ""
    estimate: bool = False
    judge_sha256: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    calls: int | None = None
    error: RowError | None = None
