"""Runs of replies: systems, cases, replies and judgements, started and read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from pydantic import FiniteFloat, SerializerFunctionWrapHandler, model_serializer

from ...guard.decision import Decision, Route
from ...guard.errors import InputError
from ...guard.files import AnyPath
from ...guard.policy import Policy
from ._run import Run
from .manifest import Manifest, Stored
from .questions import CaseKind, Count, Identifier, Question, RowError
from .table import MAKE_AGAIN, TableSpec

HOLDS_REPLIES = "replies"


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

    system_id: Identifier
    model: str
    prompt: str = ""
    prompt_sha256: str = ""
    retrieval: str = ""
    guard: str = "off"
    guard_sha256: str = ""
    top_k: int | None = None
    replayed: bool = False

    @property
    def guarded(self) -> bool:
        """Whether a guard stands in front."""
        return self.guard != "off"


class RepliesManifest(Manifest):
    """`manifest.json`.

    Attributes:
        holds: always `replies`; a run of relevance signals has no such field.
        systems: all systems under test.
        knowledge_bases: of each that questions were asked about, `name` (unique in the run), and
            how many `questions` have an answer in how many different `passages`.
        questions: number of lines of `questions.jsonl`.
        cases: number of lines of `cases.jsonl`.
        replies: number of rows of the finished run.
    """

    holds: Literal["replies"] = "replies"
    systems: tuple[ReplySystem, ...]
    knowledge_bases: tuple[dict[str, Any], ...] = ()
    questions: Count
    cases: Count
    replies: Count

    @classmethod
    def of(
        cls, questions: Sequence[Question], passages: Sequence[StoredPassage], **fields: Any
    ) -> RepliesManifest:
        """Make the manifest of a run that begins now.

        Args:
            questions: with the name of their knowledge base, if there are several.
            passages: likewise.
            fields: the others.

        Raises:
            TypeError: a field is missing, or there is none of this name.
        """
        wanted = {"settings", "systems", "cases", "replies"}
        wrong = (wanted - fields.keys()) | (fields.keys() - cls.model_fields.keys())
        if wrong:
            raise TypeError(f"missing or unknown fields of a run: {', '.join(sorted(wrong))}")
        held = Counter(passage.knowledge_base for passage in passages)
        asked = Counter(question.knowledge_base for question in questions)
        bases = tuple(
            {"name": name, "questions": number, "passages": held[name]}
            for name, number in asked.items()
        )
        own = {"suite": "ookb", "holds": HOLDS_REPLIES, "inputs": (), "knowledge_bases": bases}
        return cls.new(**{**own, "questions": len(questions), **fields})


class StoredPassage(Stored):
    """A line of `passages.jsonl`: a text that contexts refer to."""

    passage_id: Identifier
    text: str
    knowledge_base: str = ""
    source: str | None = None


class StoredPolicy(Stored):
    """A line of `policies.jsonl`: the policy of a guard that stood in front of systems.

    Attributes:
        guard: name of the guard, see `ReplySystem`.
        policy: the content of its `policy.json`.
    """

    guard: Identifier
    policy: dict[str, Any]


class ReplyCase(Stored):
    """A line of `cases.jsonl`: one question against one state of the knowledge base.

    Attributes:
        case_id: unique in the run; usually `<question id>/<kind>`.
        kind: what the knowledge base holds of the answer.
        held_out: whether the question was not used to fit the guard's policy; None where
            there is no guard, or this is not known.
    """

    case_id: Identifier
    question_id: Identifier
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

    def names(self, held: Iterable[str]) -> list[str]:
        """Return the ids of the passages in it, in its order.

        Args:
            held: of the knowledge base of the case.
        """
        if self.kind == "passages":
            return list(self.passages)
        gone = frozenset(self.passages)
        return [name for name in held if name not in gone] if self.kind == "all_but" else []


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

    reply_id: Identifier
    case_id: Identifier
    system_id: Identifier
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

    judgement_id: Identifier
    reply_id: Identifier
    judge: Identifier
    criterion: Identifier
    outcome: str | None = None
    probability: FiniteFloat | None = None
    reasoning: str = ""
    estimate: bool = False
    judge_sha256: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    calls: int | None = None
    error: RowError | None = None


_QUESTIONS = TableSpec("questions", Question, "question_id", whole=True)
PASSAGES = TableSpec("passages", StoredPassage, "passage_id", whole=True)
_CASES = TableSpec("cases", ReplyCase, "case_id", whole=True)
_POLICIES = TableSpec("policies", StoredPolicy, "guard", whole=True)


class RepliesRun:
    """A checked run of replies, finished or not.

    Args:
        folder: where it lies.

    Attributes:
        REPLIES: the table of replies.
        JUDGEMENTS: the table of judgements.
        folder: where it lies.
        manifest: the checked fields.
        systems: under test by id, in the order of the manifest.
        questions: by id, in the order of the input.
        passages: by id.
        cases: by id, in the order of the file.
        replies: by id, in the order in which they finished; an unfinished run has fewer
            than the manifest says.
        judgements: by id, in the order in which they were made.
        policies: of the guards by name; none where the run does not hold them.

    Raises:
        InputError: no such run there, or a file that is missing, broken or written by a
            newer knowgate; names file and line.
    """

    REPLIES: ClassVar = TableSpec("replies", ReplyRow, "reply_id")
    JUDGEMENTS: ClassVar = TableSpec("judgements", Judgement, "judgement_id")

    def __init__(self, folder: Path) -> None:
        where, value = str(folder / "manifest.json"), Manifest.read_raw(folder)
        if value.get("suite") != "ookb" or value.get("holds") != HOLDS_REPLIES:
            hint = "name a run made with `knowgate eval ookb --model …` or `--replay …`, or with "
            hint += "`knowgate import`"
            raise InputError("the run holds no replies", where=where, hint=hint)
        self.folder = folder
        self.manifest = RepliesManifest.checked(value, where=where, hint=MAKE_AGAIN)
        self.systems = {system.system_id: system for system in self.manifest.systems}
        self.questions = _QUESTIONS.by_key(folder)
        self.passages = PASSAGES.by_key(folder) if PASSAGES.path(folder).exists() else {}
        self.cases = _CASES.by_key(folder)
        _known(folder, "cases", self.cases, "question_id", self.questions)
        self.replies: dict[str, ReplyRow] = self.REPLIES.by_key(folder)
        _known(folder, "replies", self.replies, "case_id", self.cases)
        _known(folder, "replies", self.replies, "system_id", self.systems)
        self.judgements: dict[str, Judgement] = self.JUDGEMENTS.by_key(folder)
        _known(folder, "judgements", self.judgements, "reply_id", self.replies)
        policies = _POLICIES.path(folder)
        stored = _POLICIES.by_key(folder) if policies.exists() else {}
        self.policies = {
            name: Policy.parse(one.policy, where=str(policies), allow_changed=True)
            for name, one in stored.items()
        }

    @classmethod
    def is_in(cls, folder: AnyPath) -> bool:
        """Whether a run folder holds replies rather than relevance signals.

        Raises:
            InputError: no run there, or one written by a newer knowgate.
        """
        return Manifest.read_raw(folder).get("holds") == HOLDS_REPLIES

    @classmethod
    def read(cls, folder: AnyPath) -> RepliesRun:
        """Read a run of replies; see the class."""
        return cls(Path(folder))

    @classmethod
    def start(
        cls,
        folder: AnyPath,
        questions: Sequence[Question],
        passages: Sequence[StoredPassage],
        cases: Sequence[ReplyCase],
        **fields: Any,
    ) -> Path:
        """Make the folder of a run, or find it made by an equal call before.

        Args:
            folder: made where missing.
            questions: see `files`, likewise the next two.
            passages: that contexts refer to.
            cases: of those questions.
            fields: of the manifest: `settings` (as JSON; everything that decides the replies),
                all `systems`, how many `replies` the finished run has, and perhaps `inputs`.

        Raises:
            InputError: the folder holds something else, or cannot be written.
            TypeError: a field is missing, or there is none of this name.
        """
        root = Path(folder)
        manifest = RepliesManifest.of(questions, passages, cases=len(cases), **fields)
        with Run.create_or_resume(root, manifest, files=cls.files(questions, passages, cases)):
            return root

    @staticmethod
    def files(
        questions: Sequence[Question],
        passages: Sequence[StoredPassage],
        cases: Sequence[ReplyCase],
        policies: Mapping[str, Policy] = MappingProxyType({}),
    ) -> dict[str, Callable[[Path], object]]:
        """Return what writes the files that a run begins with, by name.

        Args:
            questions: with the name of their knowledge base, if there are several.
            passages: likewise.
            cases: of those questions.
            policies: of the guards, by name.
        """
        stored = [
            StoredPolicy(guard=name, policy=json.loads(policy.to_json()))
            for name, policy in policies.items()
        ]
        specs: tuple[TableSpec[Any], ...] = (_QUESTIONS, PASSAGES, _CASES, _POLICIES)
        tables = zip(specs, (questions, passages, cases, stored), strict=True)
        kept = [one for one in tables if stored or one[0] is not _POLICIES]
        return {f"{spec.name}.jsonl": partial(_write, spec, rows) for spec, rows in kept}

    def judges_of(self, criterion: str) -> tuple[str, ...]:
        """List the judges with a verdict on `criterion`, best first.

        Labels that came with the replies, then language models, then judges of the user's
        own, then the offline detector and the estimate; among equals those with more verdicts.
        """
        told = (one for one in self.judgements.values() if one.outcome is not None)
        counts = Counter(one.judge for one in told if one.criterion == criterion)
        return tuple(sorted(counts, key=lambda name: (_rank(name), -counts[name], name)))

    def case_of(self, reply: ReplyRow) -> ReplyCase:
        """Return the case that a reply answers."""
        return self.cases[reply.case_id]

    def question_of(self, reply: ReplyRow) -> Question:
        """Return the question that a reply answers."""
        return self.questions[self.case_of(reply).question_id]

    def context_passages(self, reply: ReplyRow) -> list[StoredPassage]:
        """Return the passages of a reply's context, as far as the run has their texts.

        For a context of the whole knowledge base, these are all its passages but those left
        out, in the order of `passages.jsonl`.
        """
        base, stored = self.case_of(reply).knowledge_base, self.passages
        held = (name for name, one in stored.items() if one.knowledge_base == base)
        names = (reply.context or ReplyContext()).names(held)
        return [stored[name] for name in names if name in stored]


def _known(
    root: Path, name: str, rows: Mapping[str, Stored], field: str, known: Mapping[str, Any]
) -> None:
    for identifier, row in rows.items():
        value = getattr(row, field)
        if value not in known:
            missing = f"the {field} {value[:80]!r}, which the run has not"
            what, where = f"row {identifier[:80]!r} names {missing}", str(root / f"{name}.jsonl")
            raise InputError(what, where=where, hint=MAKE_AGAIN)


def _rank(judge: str) -> int:
    if judge == Judgement.GIVEN:
        return 0
    if judge.startswith(Judgement.LLM_PREFIX):
        return 1
    offline = Judgement.OFFLINE_JUDGES
    return 3 + offline.index(judge) if judge in offline else 2


def _write(spec: TableSpec[Any], rows: Sequence[Stored], path: Path) -> None:
    spec.write(path.parent, rows)
