"""What a check of a reply returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SentenceSupport:
    """How far one sentence of a reply rests on a passage, and on which part of it.

    Attributes:
        start: where the sentence begins in the reply, in characters.
        end: where it ends.
        support: in [0, 1]; None where it says nothing that could be supported: a greeting, an
            abstention, a question, a pointer to a source.
        passage: index of the passage that carries it; None where none does.
        passage_start: where the carrying text begins in that passage, in characters.
        passage_end: where it ends.
        missing: what the passages lack, e.g. `number 5`, `name Warsaw`, `negation`; text of the
            reply, so not for logs.
    """

    start: int
    end: int
    support: float | None
    passage: int | None = None
    passage_start: int = 0
    passage_end: int = 0
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Support:
    """How far a reply rests on its passages.

    Attributes:
        value: in [0, 1], that of the sentence with the least support; 1 where no sentence says
            anything that could be supported.
        sentences: those of the reply, in order.
    """

    value: float
    sentences: tuple[SentenceSupport, ...] = ()

    @classmethod
    def of(cls, sentences: Sequence[SentenceSupport]) -> Support:
        """Return the support of a reply with these sentences.

        Example:
            >>> Support.of([SentenceSupport(0, 6, None), SentenceSupport(7, 20, 0.4)]).value
            0.4
        """
        values = [one.support for one in sentences if one.support is not None]
        return cls(min(values, default=1.0), tuple(sentences))

    def unsupported(self, threshold: float) -> tuple[SentenceSupport, ...]:
        """Return the sentences whose support is below the threshold."""
        return tuple(
            one for one in self.sentences if one.support is not None and one.support < threshold
        )

    def to_dict(self, reply: str | None = None) -> dict[str, Any]:
        """Return the numbers as JSON values; with the text of each sentence where given a reply.

        Without the reply nothing that anybody wrote is in it.
        """
        rows = list(map(asdict, self.sentences))
        for row in rows:
            missing = row.pop("missing")
            if reply is not None:
                row |= {"text": reply[row["start"] : row["end"]], "missing": list(missing)}
        return {"support": self.value, "sentences": rows}


@dataclass(frozen=True, slots=True)
class ReplyVerdict:
    """What the check of a reply found, and what is delivered.

    Attributes:
        text: the reply as it is delivered; None where it is withheld.
        support: of what is delivered, with the value of the reply as it was generated; None
            where the check failed.
        supported: whether no sentence is below the threshold; None where the check failed.
        calibrated: whether a promise stands behind the threshold.
    """

    text: str | None
    support: Support | None
    supported: bool | None
    calibrated: bool = False

    @property
    def withheld(self) -> bool:
        """Whether the refusal takes the reply's place."""
        return self.text is None
