"""The bundled detector of abstentions."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from .._errors import InputError
from .._fingerprint import Fingerprint
from ._citation import Citation
from ._clauses import patterns_sha256
from ._features import features
from ._model import AbstentionModel
from ._reading import read_reply
from ._verdict import AbstentionVerdict


class AbstentionDetector:
    """Tells replies that abstain, in English and Chinese, without a language model.

    Patterns find the clauses that refuse ("I don't know", "the context does not
    mention …", "无法回答"), features say how many there are, where they stand and what
    else the reply says, and a small logistic model makes a calibrated probability
    of that. A reply with nothing to read abstains for certain. Replies of any kind
    and length are taken; of a very long one the first and the last part are read.

    Args:
        model: weights; a file with such, or by default those that ship with the package.

    Raises:
        InputError: the file cannot be read or is no such model.

    Example:
        >>> detector = AbstentionDetector()
        >>> detector.detect("The context does not mention a fee.").abstained
        True
        >>> detector.detect("No, there is no fee.").abstained
        False
    """

    def __init__(self, model: AbstentionModel | str | os.PathLike[str] | None = None) -> None:
        if not isinstance(model, AbstentionModel):
            model = AbstentionModel.load(Path(model) if model is not None else None)
        self.model = model

    @property
    def fingerprint(self) -> Fingerprint:
        """What made a verdict, for runs and reports."""
        weights = hashlib.sha256(self.model.model_dump_json().encode("utf-8")).hexdigest()
        return Fingerprint(
            kind="abstention_default",
            weights_sha256=weights,
            settings={"patterns_sha256": patterns_sha256()},
        )

    def detect(
        self, response: str, *, question: str | None = None, citation: object = Citation.UNKNOWN
    ) -> AbstentionVerdict:
        """The verdict on one reply.

        Args:
            response: the reply.
            question: accepted for the sake of other rules; this one needs none.
            citation: the reply's citation field, read by `read_citation`; leave it out
                where replies have no such field.
        """
        del question
        reply = read_reply(response, citation)
        if not reply.clauses:
            return AbstentionVerdict(abstained=True, probability=1.0)
        probability = self.model.probability(features(reply))
        return AbstentionVerdict(probability >= self.model.threshold, probability)

    def detect_many(
        self,
        responses: Sequence[str],
        *,
        questions: Sequence[str | None] | None = None,
        citations: Sequence[object] | None = None,
    ) -> list[AbstentionVerdict]:
        """The verdicts on many replies, in order; equal to `detect` one by one.

        Raises:
            InputError: `questions` or `citations` are not as many as `responses`.
        """
        check_lengths(responses, questions, citations)
        fields = citations if citations is not None else [Citation.UNKNOWN] * len(responses)
        return [
            self.detect(response, citation=field)
            for response, field in zip(responses, fields, strict=True)
        ]


def check_lengths(
    responses: Sequence[str],
    questions: Sequence[str | None] | None,
    citations: Sequence[object] | None,
) -> None:
    """Refuse lists of unequal length.

    Raises:
        InputError: `questions` or `citations` are not as many as `responses`.
    """
    for name, values in (("questions", questions), ("citations", citations)):
        if values is not None and len(values) != len(responses):
            raise InputError(
                f"{len(values)} {name} for {len(responses)} responses",
                mend=f"pass one of {name} per response, or none at all",
            )
