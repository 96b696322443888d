"""Cases, systems under test, and one item for every case that is put to a system."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from langchain_core.runnables import Runnable

from ...adapters.langchain import ChatModelLM
from ...guard.decision import Decision
from ...guard.errors import InputError
from ...guard.files import read_text, text_sha256
from ...guard.prompts import Prompt
from ...guard.registry import PYTHON
from ..data.questions import QuestionRecord
from ..run.questions import CaseKind, Question
from ..run.replies import ReplyContext, ReplyRow, ReplySystem
from .factory import load_chat_model
from .guards import OFF, GuardChoice
from .models import takes_prompt

PROMPTS = ("basic", "conservative", "opinion")


@dataclass(frozen=True, slots=True)
class SystemPrompt:
    """A prompt in both forms.

    Attributes:
        name: as runs and reports call it.
        with_context: has the slots `{context}` and `{question}`.
        closed_book: has the slot `{question}` and nothing of a context.
    """

    name: str
    with_context: Prompt
    closed_book: Prompt

    @property
    def sha256(self) -> str:
        """Hexadecimal sha256 over both forms."""
        return text_sha256(self.with_context.sha256 + self.closed_book.sha256)

    def filled(self, question: str, passages: Sequence[str]) -> str:
        """The text to send: passages numbered from 1; without any, the closed-book form.

        Example:
            >>> load_system_prompt("basic").filled("Why?", ["Because."]).splitlines()[2]
            '[1] Because.'
        """
        if not passages:
            return self.closed_book.fill(question=question)
        numbered = (f"[{number}] {text}" for number, text in enumerate(passages, start=1))
        return self.with_context.fill(question=question, context="\n\n".join(numbered))


def load_system_prompt(name: str) -> SystemPrompt:
    """Load a prompt by name, or from a file of the user's own.

    Args:
        name: one of `PROMPTS`; or a text file with the slots `{question}` and
            `{context}`. What is asked without passages is the file
            `<stem>.closed_book<suffix>` beside it where there is one, and otherwise the
            same text without the paragraph that holds `{context}`.

    Raises:
        InputError: neither, or a slot is missing or unknown.
    """
    if name in PROMPTS:
        forms = (f"{name}.{form}" for form in ("with_context", "closed_book"))
        return SystemPrompt(name, *map(prompt_of_package, forms))
    path = Path(name)
    if not path.is_file():
        raise InputError(
            "there is no such prompt",
            where=name,
            hint=f"one of: {', '.join(PROMPTS)}; or a text file with {{question}} and {{context}}",
        )
    with_context = Prompt.load(path)
    with_context.require_slots({"question", "context"}, where=name)
    beside = path.with_name(f"{path.stem}.closed_book{path.suffix}")
    text = read_text(beside).rstrip("\n") if beside.is_file() else _without_context(with_context)
    closed_book = Prompt(f"{with_context.name}.closed_book", text)
    if closed_book.slots != {"question"}:
        what = f"has the slots {', '.join(sorted(closed_book.slots)) or 'none'}"
        hint = (
            "give {context} a paragraph of its own, or put the text without it into "
            "<name>.closed_book.txt beside the file, with the slot {question}"
        )
        where = str(beside) if beside.is_file() else name
        raise InputError(what, where=where, hint=hint)
    return SystemPrompt(with_context.name, with_context, closed_book)


def prompt_of_package(name: str) -> Prompt:
    """Load a prompt that ships with this package."""
    return Prompt.load(Path(__file__).with_name("prompts") / f"{name}.txt")


def _without_context(prompt: Prompt) -> str:
    paragraphs = re.split(r"\n\s*\n", prompt.text)
    return "\n\n".join(part for part in paragraphs if "{context}" not in part)


# Models set the word off in many ways: **Citation:** 2, - citation: [2], 引用：2.
_LINE = re.compile(
    r"^[\s>*_#\-\[(]*(?:citations?|sources?)[\s*_]*:[\s*_]*(?P<cited>.*?)[\s*_]*$",
    re.IGNORECASE,
)
_TAG = re.compile(r"<citation>(?P<cited>.*?)</citation>", re.IGNORECASE | re.DOTALL)


def split_citation(text: str) -> tuple[str, str | None]:
    """Split a reply into the text and its citation, which is a last line or a tag.

    The bundled prompts ask for a last line `Citation: …`; a tag `<citation>…</citation>`
    is read as well, the last one where there are several.

    Returns:
        The reply, and what it cites as it stands there: None where it has no such
        line, `""` where nothing follows the word.

    Example:
        >>> split_citation("At nine.\\nCitation: 2")
        ('At nine.', '2')
        >>> split_citation("At nine.")
        ('At nine.', None)
    """
    tags = list(_TAG.finditer(text))
    if tags:
        last = tags[-1]
        rest = (text[: last.start()] + text[last.end() :]).strip()
        return (rest or text, last.group("cited").strip())
    lines = text.rstrip().split("\n")
    found = _LINE.match(lines[-1]) if lines else None
    rest = "\n".join(lines[:-1]).rstrip()
    if found is None or not rest:
        # A reply that is nothing but its citation stays as it is.
        return text, None
    return rest, found.group("cited")


@dataclass(frozen=True, slots=True)
class Case:
    """One question against one state of the knowledge base.

    Attributes:
        case_id: `<question id>/<kind>`.
        question_id: of the question.
        kind: what the knowledge base holds of the answer.
        question: what is asked; the only thing the retriever sees.
        passage_id: the question's own passage; empty for a synthetic question, whose answer
            no passage holds.
    """

    case_id: str
    question_id: str
    kind: CaseKind
    question: str
    passage_id: str

    @classmethod
    def of(cls, asked: QuestionRecord | Question, kind: CaseKind, passage_id: str = "") -> Case:
        """Make a case of a question; without a passage nothing of the knowledge base answers it."""
        name = asked.question_id
        return Case(f"{name}/{kind.value}", name, kind, asked.question, passage_id)


@dataclass(frozen=True, slots=True)
class Asked:
    """One case put to a system, or one reply taken from a log.

    Attributes:
        system: that is asked, as the manifest has it: model, prompt, retrieval, guard by name.
        case: of the question.
        base: name of its knowledge base.
        logged: the logged row without a guard; None for a system that is asked now.
        closed_book: the same model's logged reply without context, None where there is none.
    """

    system: ReplySystem
    case: Case
    base: str
    logged: ReplyRow | None = None
    closed_book: ReplyRow | None = None

    @property
    def reply_id(self) -> str:
        """`<system id>/<case id>`."""
        return f"{self.system.system_id}/{self.case.case_id}"

    @property
    def context(self) -> ReplyContext:
        """The context of the logged reply; unknown where there is none."""
        return (self.logged and self.logged.context) or ReplyContext(kind="unknown")

    def row(self, logged: ReplyRow, decision: Decision | None = None) -> ReplyRow:
        """The row of this item, with a logged reply that the guard let through."""
        changed = {"reply_id": self.reply_id, "system_id": self.system.system_id}
        return logged.model_copy(update={**changed, **ReplyRow.of_guard(decision)})


RETRIEVALS = ("direct", "long_context", "basic_rag", "hyde")


def require_retrieval(name: str) -> None:
    """Check the name of a strategy.

    Raises:
        InputError: there is no such strategy.
    """
    if name not in RETRIEVALS and not name.startswith(PYTHON):
        raise InputError(
            f"there is no retrieval {name[:80]!r}",
            where="--retrieval",
            hint=f"one of: {', '.join(RETRIEVALS)}; or python:module:attribute",
        )


_Models = Sequence[str] | Mapping[str, Runnable[Any, Any]]
_Path = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Systems:
    """Systems under test, and what they are made of.

    Attributes:
        models: by name; None for one that is not loaded yet.
        prompts: by name.
        guards: by name, `off` included.
        live: the systems that are asked now.
        scorer: of the guards, by name; None for the one that each policy names.
        writer: name of the model that writes for HyDE and makes up questions; None for
            the first of the models.
    """

    models: Mapping[str, Runnable[Any, Any] | None]
    prompts: Mapping[str, SystemPrompt]
    guards: Mapping[str, GuardChoice]
    live: tuple[ReplySystem, ...]
    scorer: str | None = None
    writer: str | None = None

    @classmethod
    def of(
        cls,
        models: _Models,
        *,
        prompts: Sequence[str] = ("basic",),
        retrievals: Sequence[str] = ("basic_rag",),
        guards: Sequence[_Path] = (OFF,),
        scorer: str | None = None,
        writer: str | None = None,
        top_k: int = 5,
    ) -> Systems:
        """Compare every model with every prompt, retrieval and guard.

        All names are checked, policies and prompts are read; no model is loaded but the user's
        objects.

        Args:
            models: names as `load_chat_model` takes them, or name → runnable.
            prompts: names of bundled prompts, or files.
            retrievals: `direct`, `long_context`, `basic_rag`, `hyde` or
                `python:module:attribute`.
            guards: `off`, `premise`, files of policies, folders of calibrated runs or
                `python:module:attribute`.
            scorer: see `Systems`.
            writer: likewise.
            top_k: passages per context.

        Raises:
            InputError: a name, a file or a combination that cannot be used.
        """
        for name in retrievals:
            require_retrieval(name)
        _reject_doubles("--retrieval", retrievals)
        known = {choice.name: choice for choice in GuardChoice.load(guards)}
        if scorer is not None and not any(choice.policy for choice in known.values()):
            raise InputError(
                "is what a guard decides by, and no guard is under test",
                where="--scorer",
                hint="add --guard, or leave it out",
            )
        tested, loaded = _models_of(models), [load_system_prompt(name) for name in prompts]
        _reject_doubles("--prompt", [prompt.name for prompt in loaded])
        live = tuple(
            _system(name, prompt, retrieval, guard, top_k)
            for name, model in tested.items()
            for retrieval in retrievals
            for prompt in (loaded if takes_prompt(model) else [None])
            for guard in known.values()
        )
        by_name = {prompt.name: prompt for prompt in loaded}
        return cls(tested, by_name, known, live, scorer, writer)

    @property
    def guarded(self) -> bool:
        """Whether there is a guard."""
        return any(choice.policy is not None for choice in self.guards.values())

    @property
    def asks_models(self) -> bool:
        """Whether a guard measures how sure a model is."""
        return any(one.policy and one.policy.needs_estimator for one in self.guards.values())

    def loaded(self) -> Systems:
        """The same with all models loaded.

        Raises:
            InputError: there is no such model.
            MissingDependencyError: a package is missing.
        """
        models = {
            name: load_chat_model(name) if one is None else one for name, one in self.models.items()
        }
        return replace(self, models=models)

    def model(self, name: str) -> Runnable[Any, Any]:
        """A model that was loaded."""
        found = self.models[name]
        assert found is not None
        return found

    def fingerprints(self) -> dict[str, str]:
        """Of the loaded models, by name."""
        return {name: ChatModelLM(self.model(name)).fingerprint for name in self.models}

    def held_out(self, question: str) -> bool | None:
        """Whether every policy was fitted without the question; None where that is not known."""
        told = [one.held_out(question) for one in self.guards.values() if one.policy is not None]
        if False in told:
            return False
        return None if None in told or not told else True

    def items(self, cases: Mapping[str, Sequence[Case]]) -> list[Asked]:
        """Every case put to every system, case by case.

        So a run that is interrupted has asked all systems about the same cases.

        Args:
            cases: by knowledge base.
        """
        return [
            Asked(system, case, base)
            for base, of_base in cases.items()
            for case in of_base
            for system in self.live
        ]

    def behind_guards(self, logged: ReplySystem) -> list[ReplySystem]:
        """A logged system with each of the guards in front; ids of live systems are not reused."""
        ids = {guarded_id(logged.system_id, name) for name in self.guards}
        taken = not ids.isdisjoint(live.system_id for live in self.live)
        own_id = f"{logged.system_id}·logged" if taken else logged.system_id
        changes: list[dict[str, str]] = [
            {"system_id": guarded_id(own_id, name), "guard": name, "guard_sha256": one.sha256}
            for name, one in self.guards.items()
        ]
        return [logged.model_copy(update=change) for change in changes]


def _models_of(models: _Models) -> dict[str, Runnable[Any, Any] | None]:
    if isinstance(models, Mapping):
        return dict(models)
    _reject_doubles("--model", models)
    # Whether an object of the user's own takes a prompt is known only once it is loaded.
    return {name: load_chat_model(name) if name.startswith(PYTHON) else None for name in models}


def _system(
    model: str, prompt: SystemPrompt | None, retrieval: str, guard: GuardChoice, top_k: int
) -> ReplySystem:
    named = "" if prompt is None else prompt.name
    return ReplySystem(
        system_id=guarded_id("·".join(filter(None, (model, retrieval, named))), guard.name),
        model=model,
        prompt=named,
        prompt_sha256="" if prompt is None else prompt.sha256,
        retrieval=retrieval,
        guard=guard.name,
        guard_sha256=guard.sha256,
        top_k=None if retrieval in ("direct", "long_context") else top_k,
    )


def guarded_id(system: str, guard: str) -> str:
    """Id of a system with a guard in front; `off` leaves it as it is."""
    return system if guard == OFF else f"{system}·guard-{guard}"


def _reject_doubles(option: str, names: Sequence[str]) -> None:
    for at, name in enumerate(names):
        if name in names[:at]:
            raise InputError(f"{name!r} is named twice", where=option, hint="name it once")
