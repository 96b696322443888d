"""The rows of a run of replies: systems, cases, replies and judgements."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, FiniteFloat, SerializerFunctionWrapHandler, model_serializer

from ...guard.decision import Decision, Route
from ._manifest import Manifest, Stored
from ._questions import CaseKind, RowError

HOLDS_REPLIES = "replies"

_Name = Annotated[str, Field(min_length=1)]
_Count = Annotated[int, Field(ge=0)]


class ReplySystem(Stored):
    """One system under test: the model, and how it was asked.

    Attributes:
        system_id: unique in the run, e.g. `gpt-4o·basic_rag·conservative·guard`.
        model: name as given by the user or the log.
        prompt: name of the prompt; empty where unknown.
        prompt_sha256: of its text; empty where unknown.
        retrieval: `direct`, `long_context`, `basic_rag`, `hyde`, a user's own, or empty
            where unknown.
        guard: `off`, or the name of the policy in front.
        guard_sha256: of the policy; empty without one.
        top_k: passages per context, None where there is no such number.
        replayed: the replies were read from a log.
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
    """A knowledge base that questions were asked about.

    Attributes:
        name: unique in the run.
        questions: number of questions with an answer in it.
        passages: number of its different passages.
    """

    name: str
    questions: _Count
    passages: _Count


class RepliesManifest(Manifest):
    """`manifest.json`.

    Attributes:
        holds: always `replies`; a run of relevance signals has no such field.
        systems: all systems under test.
        knowledge_bases: all knowledge bases.
        questions: number of lines of `questions.jsonl`.
        cases: number of lines of `cases.jsonl`.
        replies: number of rows of the finished run.
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


class StoredPolicy(Stored):
    """A line of `policies.jsonl`: the policy of a guard that stood in front of systems.

    Attributes:
        guard: name of the guard, see `ReplySystem`.
        policy: the content of its `policy.json`.
    """

    guard: _Name
    policy: dict[str, Any]


class ReplyCase(Stored):
    """A line of `cases.jsonl`: one question against one state of the knowledge base.

    Attributes:
        case_id: unique in the run; usually `<question id>/<kind>`.
        kind: what the knowledge base holds of the answer.
        held_out: whether the question was not used to fit the guard's policy; None where
            there is no guard, or this is not known.
    """

    case_id: _Name
    question_id: _Name
    kind: CaseKind
    knowledge_base: str = ""
    held_out: bool | None = None


class ReplyContext(Stored):
    """The context that a model was given, as ids of passages.

    Attributes:
        kind: `none` (closed book), `passages` (exactly these), `all_but` (the whole
            knowledge base of the case without these), `unknown` (the log has no context).
        passages: passage ids; for `passages` in the order of the context.
    """

    kind: Literal["none", "passages", "all_but", "unknown"] = "unknown"
    passages: tuple[str, ...] = ()


class ReplyRow(Stored):
    """A line of `replies.jsonl`: the reply of one system to one case.

    Attributes:
        reply_id: `<system id>/<case id>`.
        context: that the model was given; None if the call failed before.
        response: text of the reply; None exactly where `error` is set.
        citation: the source that the reply names, word for word.
        route: of the guard, None without one.
        reason: of the guard's decision, empty without one.
        relevance: of the context as the guard saw it, in [0, 1].
        confidence: of the guard in the model's own answer, in [0, 1].
        relevance_stage: which scorer of a cascade `relevance` rests on, see `Decision`; not
            stored for any other scorer.
        input_tokens: of all calls made for this reply, None where not metered.
        output_tokens: likewise.
        calls: of language models; 0 where none was needed (a guard that abstained).
        seconds: from the first call's start to the reply; None for logged replies.
        reused: the reply to an equal prompt was used again, without a call.
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
    relevance_stage: Literal["cheap", "costly", "fallback"] | None = None

    @model_serializer(mode="wrap")
    def _stored(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        if self.relevance_stage is None:
            fields.pop("relevance_stage", None)
        return fields

    @staticmethod
    def of_guard(decision: Decision | None) -> dict[str, Any]:
        """Return the fields that a guard's decision sets; none without one."""
        if decision is None:
            return {}
        return {
            "route": decision.route,
            "reason": str(decision.reason),
            "relevance": decision.relevance,
            "confidence": decision.confidence,
            "relevance_stage": decision.relevance_stage,
        }


class Judgement(Stored):
    """A line of `judgements.jsonl`: the verdict of one judge on one reply by one criterion.

    Attributes:
        ABSTENTION: name of a criterion with the outcomes `yes` and `no`.
        FACTUALITY: name of a criterion with the outcomes `TIERS`, or `NOT_APPLICABLE` for a
            reply that abstains.
        FAILURE: name of a criterion with the outcomes contradiction, fabrication,
            over_specification and none.
        GIVEN: name of the judge whose labels came with logged replies.
        ESTIMATE: name of the judge that estimates offline.
        OFFLINE_JUDGES: names of the judges that need no language model.
        LLM_PREFIX: begins the name of a judge that is a language model.
        judgement_id: `<reply id>/<criterion>/<judge>`.
        judge: `given`, `detector`, `estimate`, `llm:<model>`, or another name for a judge of
            the user's; people's labels are stored apart, see `labelling`.
        criterion: one of those above, or the name of a criterion of the user's.
        outcome: one of the criterion's; None exactly where `error` is set.
        probability: of the positive outcome, where the judge gives one.
        reasoning: the judge's text before its verdict, if any.
        estimate: whether the verdict is an offline estimate.
        judge_sha256: of the judge's prompt or fingerprint, so that two versions of one
            judge can be told apart.
        error: why there is no outcome.
    """

    ABSTENTION: ClassVar = "abstention"
    FACTUALITY: ClassVar = "factuality"
    FAILURE: ClassVar = "failure"
    TIERS: ClassVar = ("tier_1", "tier_2", "tier_3")
    NOT_APPLICABLE: ClassVar = "NA"
    GIVEN: ClassVar = "given"
    ESTIMATE: ClassVar = "estimate"
    OFFLINE_JUDGES: ClassVar = ("detector", ESTIMATE)
    LLM_PREFIX: ClassVar = "llm:"

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
