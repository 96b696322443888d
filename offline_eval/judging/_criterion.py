"""Criteria for language models as judges: prompt, outcomes, tag, and visible fields."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from ...guard.errors import InputError, KnowgateError
from ...guard.files import read_json, read_text
from ...guard.prompts import Prompt
from ..run import (
    Judgement,
)
from ._contract import FIELDS


class JudgeError(KnowgateError):
    """A judge gave no verdict on a reply."""


class NoVerdictError(JudgeError):
    """No message of a language model held a valid verdict.

    Args:
        criterion: that was asked about.
        calls: made all the same.
        input_tokens: of those calls, None where not metered.
        output_tokens: likewise.
    """

    def __init__(
        self,
        criterion: str,
        *,
        calls: int,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
    ) -> None:
        self.calls, self.input_tokens, self.output_tokens = calls, input_tokens, output_tokens
        super().__init__(f"no valid <{criterion}> verdict in {calls} messages")


class EarlierVerdictError(JudgeError):
    """The criterion depends on another one, on which the same judge gave no verdict."""


# Around an outcome, where a model decorates it: **yes**, `yes`, "yes".
_DECORATION = " \t\r\n*_`\"'“”‘’.。!"
_MOST_REASONING = 8_000


@dataclass(frozen=True, slots=True)
class TaggedVerdict:
    """A verdict that was found in a message.

    Attributes:
        outcome: one of those allowed, as they were given.
        reasoning: what stands before the tag, or after it where nothing does, stripped;
            of a very long one the end.
    """

    outcome: str
    reasoning: str


def folded_outcome(outcome: str) -> str:
    """The form in which outcomes are compared.

    Example:
        >>> folded_outcome("Tier 1"), folded_outcome("`over-specification`.")
        ('tier_1', 'over_specification')
    """
    plain = outcome.strip(_DECORATION).casefold()
    return re.sub(r"[\s_-]+", "_", plain.replace("\\_", "_"))


_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_TAG = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
# What `labelling.LabelCriterion` has beyond these.
_OF_LABELS = ("question", "meanings", "ordinal")


@dataclass(frozen=True, slots=True)
class Criterion:
    """One question that a language model answers about every reply.

    Attributes:
        name: by which verdicts are stored and reported. That of a bundled criterion
            (`abstention`, `factuality`, `failure`) puts this one in its place.
        prompt: what the judge is told: what each outcome means. How to give the verdict
            is added to it.
        outcomes: what it may answer, at least two.
        tag: around the verdict, as in `<tone>curt</tone>`.
        sees: what it is shown: some of question, expected_answer, reply, context,
            citation; the reply always.
        positive: the outcome whose rate is of interest, to be named to `JudgeValidation.of_judges`;
            None where there is none.
        only_where: criterion → outcomes: it is asked only about replies to which the
            same judge gave one of these before. Otherwise the outcome is `otherwise`.
        otherwise: None for no verdict at all.
        needs: fields of `sees` without which it is not asked, such as expected_answer.

    Raises:
        InputError: a part is not what it should be.
    """

    name: str
    prompt: Prompt
    outcomes: tuple[str, ...]
    tag: str
    sees: tuple[str, ...] = ("question", "reply")
    positive: str | None = None
    only_where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    otherwise: str | None = None
    needs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        where = f"criterion {self.name!r}"
        if not _NAME.fullmatch(self.name) or self.name == Judgement.GIVEN:
            raise InputError(
                "is not a name for a criterion", where=where, hint="letters, digits, _ . - only"
            )
        if not _TAG.fullmatch(self.tag):
            raise InputError(f"{self.tag!r} is no tag", where=where, hint="letters, digits, _ -")
        folded = [folded_outcome(outcome) for outcome in self.outcomes]
        if len(folded) < 2 or len(set(folded)) < len(folded) or not all(folded):
            raise InputError(
                "needs two outcomes or more that differ by more than case or hyphens", where=where
            )
        if any(set(outcome) & set("<>\n\r") or len(outcome) > 80 for outcome in self.outcomes):
            raise InputError(
                "an outcome is longer than 80 characters or has <, > or a line break", where=where
            )
        unknown = sorted({*self.sees, *self.needs} - set(FIELDS))
        if unknown or "reply" not in self.sees or not set(self.needs) <= set(self.sees):
            raise InputError(
                f"cannot see {unknown[0]!r}" if unknown else "must see the reply and what it needs",
                where=where,
                hint=f"fields: {', '.join(FIELDS)}",
            )
        if self.positive is not None and self.positive not in self.outcomes:
            raise InputError(f"{self.positive!r} is none of the outcomes", where=where)
        if not self.prompt.text.strip():
            raise InputError("the prompt is empty", where=where)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Criterion:
        """Read a criterion from a TOML or JSON file.

        Fields as in `Criterion`; `prompt` names a text file beside it, `tag` is the name where
        it is missing. `question`, `meanings` and `ordinal`, which people's labels know, are
        left alone, so that one file serves both.

        Raises:
            InputError: the file or its prompt cannot be read, or a field is not what it
                should be.
        """
        where = os.fspath(path)
        value = _parsed(Path(path))
        known = [item.name for item in fields(cls)]
        strangers = sorted(set(value) - {*known, *_OF_LABELS})
        if strangers:
            raise InputError(
                f"unknown field {strangers[0]!r}", where=where, hint=f"fields: {', '.join(known)}"
            )
        name, prompt = _text(value, "name", where), _text(value, "prompt", where)
        only_where = value.get("only_where", {})
        if not isinstance(only_where, dict):
            raise InputError("field 'only_where' must be a table", where=where)
        try:
            return cls(
                name=name,
                prompt=Prompt.load(Path(path).parent / prompt),
                outcomes=_texts(value, "outcomes", where) or (),
                tag=_text(value, "tag", where) if "tag" in value else name,
                sees=_texts(value, "sees", where) or ("question", "reply"),
                positive=_text(value, "positive", where) if "positive" in value else None,
                only_where={key: _texts(only_where, key, where) for key in only_where},
                otherwise=_text(value, "otherwise", where) if "otherwise" in value else None,
                needs=_texts(value, "needs", where),
            )
        except InputError as error:
            if error.where.startswith("criterion "):
                raise InputError(error.what, where=where, hint=error.hint) from None
            raise

    @staticmethod
    def bundled(further: Sequence[Criterion] = ()) -> tuple[Criterion, ...]:
        """Return abstention, factuality in three tiers, kind of failure; then further criteria.

        Args:
            further: one with the name of a bundled criterion replaces it.

        Raises:
            InputError: two further criteria have one name.
        """
        names = [item.name for item in further]
        if len(set(names)) < len(names):
            raise InputError("two criteria have one name", where=", ".join(names))
        return tuple({item.name: item for item in (*_bundled(), *further)}.values())

    @staticmethod
    def parse_tag(text: str, tag: str, outcomes: Sequence[str]) -> TaggedVerdict | None:
        """Find the last valid verdict in `text`; None where there is none.

        Tag and outcome are read in any case, with spaces, Markdown and quotes around the
        outcome, with spaces or hyphens for its underscores, and nested tags from the innermost
        out. A tag that is not closed counts where nothing but an outcome follows. A tag whose
        content is anything but one of the outcomes does not count.

        Args:
            text: what the model wrote.
            tag: name of the tag.
            outcomes: those allowed; see `folded_outcome` for when two are alike.

        Example:
            >>> reply = "It abstains.\\n<Abstention> **Yes** </Abstention>"
            >>> Criterion.parse_tag(reply, "abstention", ["yes", "no"])
            TaggedVerdict(outcome='yes', reasoning='It abstains.')
        """
        allowed = {folded_outcome(outcome): outcome for outcome in outcomes}
        longest = max(map(len, allowed), default=0) + 64
        # Bounded repeats keep this linear on any text.
        marks = list(
            re.finditer(rf"<\s{{0,8}}(/?)\s{{0,8}}{re.escape(tag)}\s{{0,8}}>", text, re.IGNORECASE)
        )
        for index in range(len(marks) - 1, -1, -1):
            mark = marks[index]
            if mark.group(1):
                continue
            end = marks[index + 1].start() if index + 1 < len(marks) else len(text)
            # What is longer than any outcome cannot be one, and is not worth folding.
            content = text[mark.end() : end].strip()
            outcome = allowed.get(folded_outcome(content)) if len(content) <= longest else None
            if outcome is not None:
                before = text[: mark.start()].strip()
                after = text[marks[index + 1].end() :].strip() if index + 1 < len(marks) else ""
                return TaggedVerdict(outcome, (before or after)[-_MOST_REASONING:])
        return None


def _bundled() -> tuple[Criterion, ...]:
    return (
        Criterion(
            name=Judgement.ABSTENTION,
            prompt=bundled_prompt(Judgement.ABSTENTION),
            outcomes=("yes", "no"),
            tag=Judgement.ABSTENTION,
            sees=("question", "reply", "citation"),
        ),
        Criterion(
            name=Judgement.FACTUALITY,
            prompt=bundled_prompt(Judgement.FACTUALITY),
            outcomes=Judgement.TIERS,
            tag=Judgement.FACTUALITY,
            sees=("question", "expected_answer", "reply"),
            only_where={Judgement.ABSTENTION: ("no",)},
            otherwise=Judgement.NOT_APPLICABLE,
            needs=("expected_answer",),
        ),
        Criterion(
            name=Judgement.FAILURE,
            prompt=bundled_prompt(Judgement.FAILURE),
            outcomes=("contradiction", "fabrication", "over_specification", "none"),
            tag=Judgement.FAILURE,
            sees=("question", "expected_answer", "reply", "context"),
            only_where={Judgement.FACTUALITY: Judgement.TIERS[1:]},
            needs=("expected_answer",),
        ),
    )


@lru_cache
def bundled_prompt(name: str) -> Prompt:
    """A prompt that ships with the judges."""
    text = resources.files(f"{__package__}.prompts").joinpath(f"{name}.txt")
    return Prompt(name=name, text=text.read_text(encoding="utf-8").rstrip("\n"))


def _parsed(path: Path) -> dict[str, Any]:
    kind = path.suffix.lower()
    if kind == ".json":
        value = read_json(path)
    elif kind == ".toml":
        try:
            value = tomllib.loads(read_text(path))
        except (ValueError, RecursionError) as error:
            detail = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise InputError(
                f"broken TOML ({detail})", where=str(path), hint="fix the file"
            ) from None
    else:
        raise InputError("is not a criterion", where=str(path), hint="name a .toml or .json file")
    if not isinstance(value, dict):
        raise InputError("must be one object", where=str(path))
    return value


def _text(value: Mapping[str, Any], name: str, where: str) -> str:
    found = value.get(name)
    if not isinstance(found, str) or not found:
        raise InputError(f"field {name!r} must be text", where=where)
    return found


def _texts(value: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    found = value.get(name, [])
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise InputError(f"field {name!r} must be a list of texts", where=where)
    return tuple(found)
