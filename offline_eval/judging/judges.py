"""Estimate factuality and failures without a language model.

A reply equal to the expected answer by rule is tier 1; one whose numbers all differ from
the expected ones is tier 3; otherwise `EstimateJudge.closeness` decides by two thresholds.

How good that is, on 783 answers of GPT-4o to two knowledge bases, judged by GPT-4.1
(`benchmarks/judges.py`). Thresholds fitted on the one, measured on the other:

                            tier 1+2 or not          three tiers
    fitted on  measured on  accuracy  kappa  AUROC   accuracy  kappa
    CPF        BTT          .783      .54    .81     .684      .41
    BTT        CPF          .737      .24    .67     .692      .17

Always saying "tier 3" is right in .602 of BTT and .770 of CPF. So the estimate is good for
comparing systems and for finding replies to look at; it is no substitute for a judge, least
of all where answers are long. How failures are told apart has been measured against no
labels at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...guard.abstention import AbstentionDetector, Citation
from ...guard.engine.encoder import TokenEncoder
from ...guard.errors import UnsupportedLanguageError
from ...guard.signals.conflict.meaning_rules import Rule, read_answer
from ...guard.signals.relevance.late_interaction import best_cosines, token_weights, word_piece_idf
from ..run.replies import Judgement
from .contract import JudgedReply, Known, Verdict, sha256_of


class DetectorJudge:
    """Whether a reply abstains, by `AbstentionDetector`: no language model, no network.

    On 1,334 logged replies of GPT-4o it differs from GPT-4.1's labels in 19, kappa .971
    (`benchmarks/judges.py`). It was fitted on replies about the same two knowledge bases;
    `benchmarks/abstention.py` measures it across them.
    """

    name = "detector"
    estimate = False
    criteria = (Judgement.ABSTENTION,)

    def __init__(self) -> None:
        self._detector = AbstentionDetector()

    def version(self, criterion: str) -> str:
        """Of weights and patterns."""
        return sha256_of(criterion, self._detector.fingerprint.model_dump_json())

    def wants(self, criterion: str, material: JudgedReply, known: Known) -> bool:
        """Always."""
        return True

    async def judge(self, criterion: str, material: JudgedReply, known: Known) -> Verdict:
        """Yes or no, with the probability of yes."""
        return self.verdict(material)

    def verdict(self, material: JudgedReply) -> Verdict:
        """The same, for callers without an event loop."""
        citation = Citation.UNKNOWN if material.citation is None else material.citation
        found = self._detector.detect(material.reply, question=material.question, citation=citation)
        return Verdict("yes" if found.abstained else "no", probability=found.probability)


def new_numbers(text: str, *known: str) -> frozenset[str]:
    """Numbers in `text` that stand in none of the other texts.

    Example:
        >>> sorted(new_numbers("2 of 30 within five days", "30 days, two weeks"))
        ['5']
    """
    said = frozenset().union(*(read_answer(other).numbers for other in known))
    return read_answer(text).numbers - said


def numbers_clash(question: str, expected: str, reply: str) -> bool:
    """Whether both answer with numbers, and with none alike.

    Example:
        >>> numbers_clash("How deep?", "1.6 mm", "at least 3 mm")
        True
    """
    mine, yours = new_numbers(expected, question), new_numbers(reply, question)
    return bool(mine) and bool(yours) and mine.isdisjoint(yours)


# Replies to a context are met by it, others by random passages of the same knowledge base:
# AUROC .91 on BTT and .96 on CPF; this lies where both are told apart about evenly.
SUPPORTED = 0.55
_MOST_PASSAGES = 20


class EstimateJudge:
    """Estimates of factuality and of the kind of failure, offline.

    Replies that abstain by the offline detector are NA. The tiers are those of the bundled
    LLM criterion; so are the kinds of failure, and they are looked at for the replies of
    tiers 2 and 3 alone.

    Texts that are not in Latin letters, which the embedded encoder does not know, are judged
    by the rules alone; where these leave the tier open, the row is that of a failure.

    Args:
        encoder: shared with others where they use the same; None for a new one, loaded on
            first use.
    """

    name = Judgement.ESTIMATE
    estimate = True
    criteria = (Judgement.FACTUALITY, Judgement.FAILURE)
    # Fitted on both knowledge bases: greatest kappa of "tier 1+2 or not", then greatest
    # quadratically weighted kappa of the tiers.
    acceptable = 0.76
    equivalent = 0.82

    def __init__(self, encoder: TokenEncoder | None = None) -> None:
        self._detector, self._given = DetectorJudge(), encoder

    def version(self, criterion: str) -> str:
        """Of encoder, detector and thresholds."""
        return sha256_of(
            criterion,
            self._encoder.fingerprint("answer_similarity").model_dump_json(),
            self._detector.version(criterion),
            f"{self.acceptable} {self.equivalent} {SUPPORTED} {_MOST_PASSAGES}",
        )

    def wants(self, criterion: str, material: JudgedReply, known: Known) -> bool:
        """Not without an expected answer; failures in tiers 2 and 3 alone."""
        if not material.expected_answer.strip():
            return False
        return (
            criterion == Judgement.FACTUALITY
            or known.get(Judgement.FACTUALITY) in Judgement.TIERS[1:]
        )

    async def judge(self, criterion: str, material: JudgedReply, known: Known) -> Verdict:
        """A tier, NA, or a kind of failure.

        Raises:
            UnsupportedLanguageError: the texts are in a script that the encoder does not
                know.
        """
        if criterion == Judgement.FAILURE:
            return Verdict(self._failure(material, known[Judgement.FACTUALITY]))
        if self._detector.verdict(material).outcome == "yes":
            return Verdict(Judgement.NOT_APPLICABLE)
        return Verdict(self._tier(material))

    def tier_by_rules(self, question: str, expected: str, reply: str) -> str | None:
        """The tier where rules decide it: equal answers, or numbers that all differ."""
        if Rule.between(expected, reply) is Rule.SAME:
            return Judgement.TIERS[0]
        return Judgement.TIERS[2] if numbers_clash(question, expected, reply) else None

    def closeness(self, question: str, expected: str, reply: str) -> float:
        """How near `reply` comes to `expected`, in [-1, 1].

        The mean of two: the cosine of "question expected" and "question reply", and how far
        the expected answer's words are met by the reply's. What the question says already counts
        for little: a reply that only repeats it is near every answer otherwise.

        Raises:
            UnsupportedLanguageError: a text is in a script that the encoder does not know.
        """
        met = self._met(question, expected, [reply])
        first, second = self._encoder.encode_first(
            [f"{question} {expected}", f"{question} {reply}"]
        )
        return (float(np.dot(first.embedding, second.embedding)) + met) / 2

    def _met(self, question: str, text: str, sources: Sequence[str]) -> float:
        """How far the words of `text` are met by those of the sources, in [-1, 1].

        The mean over the text's tokens of the best cosine to any token of any source,
        weighted by inverse document frequency and by how little the question meets them.
        A text without tokens of its own is met by anything, and nothing by no sources.
        """
        self._require(question, text, *sources)
        encoder = self._encoder
        asked, told = encoder.encode_first([question, text])
        windows = [window for those in encoder.encode(list(sources)) for window in those]
        known = np.clip(best_cosines(told, [asked]), 0.0, 1.0)
        weights = token_weights(told, self._idf, encoder.unknown_id) * (1.0 - known)
        total = float(weights.sum())
        if total <= 0.0:
            return 1.0
        return float(weights @ best_cosines(told, windows)) / total if windows else 0.0

    def _tier(self, material: JudgedReply) -> str:
        question, expected, reply = material.question, material.expected_answer, material.reply
        tier = self.tier_by_rules(question, expected, reply)
        if tier is not None:
            return tier
        try:
            closeness = self.closeness(question, expected, reply)
        except UnsupportedLanguageError:
            if Rule.between(expected, reply) is Rule.DIFFERENT:
                return Judgement.TIERS[2]
            raise
        if closeness >= self.equivalent:
            return Judgement.TIERS[0]
        return Judgement.TIERS[1 if closeness >= self.acceptable else 2]

    def _failure(self, material: JudgedReply, tier: str) -> str:
        question, expected, reply = material.question, material.expected_answer, material.reply
        sources = [expected, *material.nearest_context(_MOST_PASSAGES)]
        if numbers_clash(question, expected, reply):
            return "contradiction"
        # Long texts differ in a number or a "not" that need not clash: only near ones count.
        alike = self.closeness(question, expected, reply) >= self.acceptable
        if alike and Rule.between(expected, reply) is Rule.DIFFERENT:
            return "contradiction"
        unsupported = self._met(question, reply, sources) < SUPPORTED
        if tier == Judgement.TIERS[2]:
            return "fabrication" if unsupported else "none"
        added = new_numbers(reply, question, *sources)
        return "over_specification" if unsupported or added else "none"

    @cached_property
    def _encoder(self) -> TokenEncoder:
        return self._given or TokenEncoder()

    @cached_property
    def _idf(self) -> NDArray[np.float32] | None:
        return word_piece_idf(self._encoder)

    def _require(self, *texts: str) -> None:
        if not self._encoder.supports(" ".join(texts)):
            what = "the embedded encoder knows texts in Latin letters only"
            raise UnsupportedLanguageError("relevance", what)
