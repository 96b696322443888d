"""Everything that replies are made from; can be sent to another process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..replies import ReplyContext
from ._contexts import FoundContext
from ._guard_choices import GuardChoice
from ._models_under_test import ModelUnderTest


@dataclass(frozen=True, slots=True)
class Shown:
    """Passages as they stand in a prompt.

    Attributes:
        context: by reference.
        texts: in the same order; cut ones as cut.
    """

    context: ReplyContext
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Material:
    """What makes replies, besides the items themselves.

    Attributes:
        models: under test, by name.
        guards: by name, `off` included.
        scorer: name of the guards' scorer; None for the one that each policy names.
        contexts: found contexts by id.
        passages: knowledge base → passage id → text, in the order of the base.
        others: texts that no knowledge base holds, by passage id.
        context_chars: see `RepliesSettings`.
        paid_by: retrieval → the system whose replies carry what retrieving cost, so that
            the costs of all replies add up to what was spent.
    """

    models: Mapping[str, ModelUnderTest]
    guards: Mapping[str, GuardChoice]
    scorer: str | None = None
    contexts: Mapping[str, FoundContext] = field(default_factory=dict)
    passages: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)
    context_chars: int | None = None
    paid_by: Mapping[str, str] = field(default_factory=dict)

    def shown(self, context: ReplyContext, base: str) -> Shown:
        """The passages of a context that go into a prompt, as far as they fit.

        Raises:
            KeyError: a text is not there.
        """
        texts = self.texts(context, base)
        if self.context_chars is None:
            return Shown(context, tuple(texts.values()))
        fitting = _fitting(texts, self.context_chars)
        if len(fitting) == len(texts):
            return Shown(context, tuple(fitting.values()))
        kept = ReplyContext(kind="passages", passages=tuple(fitting))
        return Shown(kept, tuple(fitting.values()))

    def texts(self, context: ReplyContext, base: str) -> dict[str, str]:
        """Passage id → text of what a context refers to, in its order.

        Raises:
            KeyError: a text is not there.
        """
        held = self.passages.get(base, {})
        if context.kind == "passages":
            return {
                name: held[name] if name in held else self.others[name] for name in context.passages
            }
        if context.kind == "all_but":
            gone = frozenset(context.passages)
            return {name: text for name, text in held.items() if name not in gone}
        return {}


def picked(shown: Shown, indices: Sequence[int]) -> Shown:
    """Some of the passages, in their order."""
    if len(indices) == len(shown.texts):
        return shown
    if not indices:
        return Shown(ReplyContext(kind="none"), ())
    names = shown.context.passages
    return Shown(
        ReplyContext(kind="passages", passages=tuple(names[i] for i in indices)),
        tuple(shown.texts[i] for i in indices),
    )


def _fitting(texts: Mapping[str, str], most: int) -> dict[str, str]:
    """The first passages that fit together; one that is too long by itself is cut at a word."""
    fitting: dict[str, str] = {}
    room = most
    for name, text in texts.items():
        if len(text) > room:
            if not fitting:
                cut = text[:room]
                words = cut.rsplit(maxsplit=1)[0] if not text[room].isspace() else cut
                fitting[name] = words or cut
            break
        fitting[name] = text
        room -= len(text)
    return fitting
