"""Cases, prompts, one item for every case that is put to a system, and what all that costs."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from statistics import fmean

from ...guard.decision import Decision
from ...guard.errors import InputError
from ...guard.files import read_text
from ...guard.prompts import Prompt
from ..data.bases import AskedBase
from ..data.questions import QuestionRecord
from ..run.questions import CaseKind, Question
from ..run.replies import ReplyContext, ReplyRow, ReplySystem

PROMPTS = ("basic", "conservative", "opinion")
_CLOSED_BOOK_FILE = "{stem}.closed_book{suffix}"


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
        both = self.with_context.sha256 + self.closed_book.sha256
        return hashlib.sha256(both.encode("ascii")).hexdigest()

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
        return SystemPrompt(name, _bundled(name, "with_context"), _bundled(name, "closed_book"))
    path = Path(name)
    if not path.is_file():
        raise InputError(
            "there is no such prompt",
            where=name,
            hint=f"one of: {', '.join(PROMPTS)}; or a text file with {{question}} and {{context}}",
        )
    with_context = Prompt.load(path)
    _require_slots(with_context, {"question", "context"}, where=name)
    beside = path.with_name(_CLOSED_BOOK_FILE.format(stem=path.stem, suffix=path.suffix))
    text = read_text(beside).rstrip("\n") if beside.is_file() else _without_context(with_context)
    closed_book = Prompt(f"{with_context.name}.closed_book", text)
    where = str(beside) if beside.is_file() else name
    _require_slots(closed_book, {"question"}, where=where)
    return SystemPrompt(with_context.name, with_context, closed_book)


def _bundled(name: str, form: str) -> Prompt:
    file = resources.files(f"{__package__}.prompts").joinpath(f"{name}.{form}.txt")
    return Prompt(f"{name}.{form}", file.read_text(encoding="utf-8").rstrip("\n"))


def _without_context(prompt: Prompt) -> str:
    paragraphs = re.split(r"\n\s*\n", prompt.text)
    return "\n\n".join(part for part in paragraphs if "{context}" not in part)


def _require_slots(prompt: Prompt, slots: set[str], *, where: str) -> None:
    if prompt.slots == slots:
        return
    wanted = " and ".join(f"{{{slot}}}" for slot in sorted(slots, reverse=True))
    hint = f"a prompt has {wanted} and no other slot"
    if slots == {"question"}:
        hint = (
            "give {context} a paragraph of its own, or put the text without it into "
            "<name>.closed_book.txt beside the file, with the slot {question}"
        )
    raise InputError(
        f"has the slots {', '.join(sorted(prompt.slots)) or 'none'}", where=where, hint=hint
    )


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
    """One case put to a system.

    Attributes:
        system: that is asked, as the manifest has it: model, prompt, retrieval, guard by name.
        case: of the question.
        base: name of its knowledge base.
    """

    system: ReplySystem
    case: Case
    base: str

    @property
    def reply_id(self) -> str:
        """`<system id>/<case id>`."""
        return f"{self.system.system_id}/{self.case.case_id}"


@dataclass(frozen=True, slots=True)
class Replayed(Asked):
    """One reply taken from a log.

    Attributes:
        logged: the row without a guard.
        closed_book: the same model's logged reply without context, None where there is none.
    """

    logged: ReplyRow
    closed_book: ReplyRow | None = None

    @property
    def context(self) -> ReplyContext:
        """The context of the logged reply."""
        return self.logged.context or ReplyContext(kind="unknown")

    def row(self, logged: ReplyRow, decision: Decision | None = None) -> ReplyRow:
        """The row of this item, with a logged reply that the guard let through."""
        changed = {"reply_id": self.reply_id, "system_id": self.system.system_id}
        return logged.model_copy(update={**changed, **ReplyRow.of_guard(decision)})


# Rough, and the same for every model: English text by common tokenizers.
_CHARS_PER_TOKEN = 4
# A reply is taken to be as long as the expected answers, and a citation line.
_CITATION_TOKENS = 6
_HYDE_ANSWERS, _HYDE_INSTRUCTION = 3, 400
COUNTED = ("replies", "calls", "input_tokens", "output_tokens")


def estimated_costs(
    asked: Sequence[Asked],
    bases: Mapping[str, AskedBase],
    prompts: Mapping[str, SystemPrompt],
    *,
    top_k: int,
    characters: int | None,
) -> dict[str, dict[str, int]]:
    """Estimate what each system costs, at most where a guard may abstain.

    Tokens come from the length of prompts, passages and expected answers. Further attempts are not
    counted.

    Args:
        asked: of all systems; logged replies cost nothing.
        bases: knowledge bases by name.
        prompts: by name.
        top_k: passages per context.
        characters: the most characters of passages in a prompt; None: no bound.

    Returns:
        By system the replies, calls, and tokens in and out.
    """
    # Retrieving is paid for once, whatever the systems that share it.
    live = [one.system for one in asked if not isinstance(one, Replayed)]
    paid_by = {one.retrieval: one.system_id for one in reversed(live)}
    found: dict[str, Counter[str]] = {}
    for item in asked:
        name, retrieval = item.system.system_id, item.system.retrieval
        spent = dict.fromkeys(COUNTED, 0) | {"replies": 1}
        if not isinstance(item, Replayed):
            writes = retrieval == "hyde" and paid_by[retrieval] == name
            prompt, base = prompts.get(item.system.prompt), bases[item.base]
            passages = [len(text) for text in base.knowledge_base.passages.values()]
            own = len(base.knowledge_base.passages.get(item.case.passage_id, ""))
            context = {"direct": 0.0, "long_context": float(sum(passages) - own)}.get(
                retrieval, min(top_k, len(passages)) * fmean(passages)
            )
            if characters is not None:
                context = min(context, characters)
            read = len(item.case.question) + context
            written = fmean(len(one.answer) for one in base.records)
            if prompt is not None:
                read += len((prompt.with_context if context else prompt.closed_book).text)
            if writes:
                read += len(item.case.question) + _HYDE_INSTRUCTION
                written += _HYDE_ANSWERS * fmean(passages)
            spent["calls"] = 1 + writes
            spent["input_tokens"] = round(read / _CHARS_PER_TOKEN)
            spent["output_tokens"] = round(written / _CHARS_PER_TOKEN + _CITATION_TOKENS)
        found.setdefault(name, Counter()).update(spent)
    return {name: dict(one) for name, one in found.items()}
