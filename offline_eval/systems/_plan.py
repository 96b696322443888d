"""What a run will ask: systems × cases, before anything is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..run import CaseKind, Question, ReplyCase, ReplySystem
from ._bases import AskedBase
from ._cases import Case, build_cases
from ._guards import OFF, GuardChoice, held_out_of
from ._models import ModelUnderTest
from ._prompts import SystemPrompt


@dataclass(frozen=True, slots=True)
class LiveSystem:
    """A system that is asked now.

    Attributes:
        system: as the manifest has it.
        model: name of the model.
        prompt: None for a runnable with a prompt of its own.
        retrieval: name.
        guard: name of the choice.
    """

    system: ReplySystem
    model: str
    prompt: SystemPrompt | None
    retrieval: str
    guard: str


@dataclass(frozen=True, slots=True)
class Asked:
    """One reply to be had: a case put to a system.

    Attributes:
        system: who is asked.
        case: of the question.
        base: name of its knowledge base.
    """

    system: LiveSystem
    case: Case
    base: str

    @property
    def reply_id(self) -> str:
        """`<system id>/<case id>`."""
        return f"{self.system.system.system_id}/{self.case.case_id}"


def live_systems(
    models: Sequence[ModelUnderTest],
    prompts: Sequence[SystemPrompt],
    retrievals: Sequence[str],
    guards: Sequence[GuardChoice],
    *,
    top_k: int,
) -> list[LiveSystem]:
    """Every model with every prompt, retrieval and guard, in that order.

    A runnable that brings its own prompt is not multiplied by the prompts.
    """
    found = []
    for model in models:
        own: Sequence[SystemPrompt | None] = prompts if model.takes_prompt else (None,)
        for retrieval in retrievals:
            for prompt in own:
                for guard in guards:
                    named = "" if prompt is None else prompt.name
                    system = ReplySystem(
                        system_id=system_id(model.name, retrieval, named, guard.name),
                        model=model.name,
                        prompt=named,
                        prompt_sha256="" if prompt is None else prompt.sha256,
                        retrieval=retrieval,
                        guard=guard.name,
                        guard_sha256=guard.sha256,
                        top_k=None if retrieval in ("direct", "long_context") else top_k,
                    )
                    found.append(LiveSystem(system, model.name, prompt, retrieval, guard.name))
    return found


def system_id(model: str, retrieval: str, prompt: str, guard: str) -> str:
    """Parts that are known, with dots between them.

    Example:
        >>> system_id("embedded", "basic_rag", "basic", "policy")
        'embedded·basic_rag·basic·guard-policy'
    """
    return guarded_id("·".join(part for part in (model, retrieval, prompt) if part), guard)


def guarded_id(system: str, guard: str) -> str:
    """Id of a system with a guard in front; `off` leaves it as it is."""
    return system if guard == OFF else f"{system}·guard-{guard}"


def cases_of(
    base: AskedBase, kinds: Sequence[CaseKind], synthetic: Sequence[Question] = ()
) -> list[Case]:
    """The cases of one knowledge base, question by question; made-up questions last."""
    kept = [kind for kind in kinds if kind is not CaseKind.SYNTHETIC]
    cases = build_cases(base.asked, base.knowledge_base, kept)
    if CaseKind.SYNTHETIC in kinds:
        cases += [
            Case(
                case_id=f"{question.question_id}/{CaseKind.SYNTHETIC.value}",
                question_id=question.question_id,
                kind=CaseKind.SYNTHETIC,
                question=question.question,
                passage_id="",
            )
            for question in synthetic
        ]
    return cases


def reply_case(case: Case, base: str, guards: Sequence[GuardChoice]) -> ReplyCase:
    """A case as the run stores it."""
    return ReplyCase(
        case_id=case.case_id,
        question_id=case.question_id,
        kind=case.kind,
        knowledge_base=base,
        held_out=held_out_of(guards, case.question),
    )


def all_asked(systems: Sequence[LiveSystem], cases: Mapping[str, Sequence[Case]]) -> list[Asked]:
    """Every case put to every system, case by case.

    So a run that is broken off has asked all systems about the same cases.

    Args:
        systems: all of them.
        cases: by knowledge base.
    """
    return [
        Asked(system, case, base)
        for base, of_base in cases.items()
        for case in of_base
        for system in systems
    ]
