"""Factuality and failures without a language model: estimates, and labelled as such.

A reply equal to the expected answer by rule is tier 1; one whose numbers all differ from
the expected ones is tier 3; otherwise `AnswerSimilarity.closeness` decides by two thresholds.

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

import threading

from ...guard import UnsupportedLanguageError
from ...guard.conflict import Rule, judge_by_rules
from ...guard.relevance import TokenEncoder
from ..replies import FACTUALITY, TIERS
from ..replies._artefacts import ESTIMATE
from ._answer_similarity import AnswerSimilarity, new_numbers, numbers_clash
from ._contract import Known, Verdict, sha256_of
from ._criterion import FAILURE, NOT_APPLICABLE
from ._detector_judge import DetectorJudge
from ._material import JudgedReply

# Fitted on both knowledge bases: greatest kappa of "tier 1+2 or not", then greatest
# quadratically weighted kappa of the tiers.
ACCEPTABLE, EQUIVALENT = 0.76, 0.82
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

    name = ESTIMATE
    estimate = True
    criteria = (FACTUALITY, FAILURE)

    def __init__(self, encoder: TokenEncoder | None = None) -> None:
        self._detector = DetectorJudge()
        self._encoder = encoder
        self._similarity: AnswerSimilarity | None = None
        self._lock = threading.Lock()

    def version(self, criterion: str) -> str:
        """Of encoder, detector and thresholds."""
        return sha256_of(
            criterion,
            self._loaded().fingerprint,
            self._detector.version(criterion),
            f"{ACCEPTABLE} {EQUIVALENT} {SUPPORTED} {_MOST_PASSAGES}",
        )

    def wants(self, criterion: str, material: JudgedReply, known: Known) -> bool:
        """Not without an expected answer; failures in tiers 2 and 3 alone."""
        if not material.expected_answer.strip():
            return False
        return criterion == FACTUALITY or known.get(FACTUALITY) in TIERS[1:]

    async def judge(self, criterion: str, material: JudgedReply, known: Known) -> Verdict:
        """A tier, NA, or a kind of failure.

        Raises:
            UnsupportedLanguageError: the texts are in a script that the encoder does not
                know.
        """
        if criterion == FAILURE:
            return Verdict(self._failure(material, known[FACTUALITY]))
        if self._detector.verdict(material).outcome == "yes":
            return Verdict(NOT_APPLICABLE)
        return Verdict(self._tier(material))

    def _tier(self, material: JudgedReply) -> str:
        question, expected, reply = material.question, material.expected_answer, material.reply
        rule = judge_by_rules(expected, reply)
        if rule is Rule.SAME:
            return TIERS[0]
        if numbers_clash(question, expected, reply):
            return TIERS[2]
        try:
            closeness = self._loaded().closeness(question, expected, reply)
        except UnsupportedLanguageError:
            if rule is Rule.DIFFERENT:
                return TIERS[2]
            raise
        return TIERS[0 if closeness >= EQUIVALENT else 1 if closeness >= ACCEPTABLE else 2]

    def _failure(self, material: JudgedReply, tier: str) -> str:
        question, expected, reply = material.question, material.expected_answer, material.reply
        similarity = self._loaded()
        sources = [expected, *material.nearest_context(_MOST_PASSAGES)]
        if numbers_clash(question, expected, reply):
            return "contradiction"
        # Long texts differ in a number or a "not" that need not clash: only near ones count.
        alike = similarity.closeness(question, expected, reply) >= ACCEPTABLE
        if alike and judge_by_rules(expected, reply) is Rule.DIFFERENT:
            return "contradiction"
        unsupported = similarity.met(question, reply, sources) < SUPPORTED
        if tier == TIERS[2]:
            return "fabrication" if unsupported else "none"
        added = new_numbers(reply, question, *sources)
        return "over_specification" if unsupported or added else "none"

    def _loaded(self) -> AnswerSimilarity:
        with self._lock:
            if self._similarity is None:
                self._similarity = AnswerSimilarity(self._encoder)
            return self._similarity
