"""Abstention by the offline detector."""

from __future__ import annotations

from ...guard.abstention import AbstentionDetector, Citation
from ..replies import ABSTENTION
from ._contract import Known, Verdict, sha256_of
from ._material import JudgedReply

DETECTOR = "detector"


class DetectorJudge:
    """Whether a reply abstains, by `AbstentionDetector`: no language model, no network.

    On 1,334 logged replies of GPT-4o it differs from GPT-4.1's labels in 19, kappa .971
    (`benchmarks/judges.py`). It was fitted on replies about the same two knowledge bases;
    `benchmarks/abstention.py` measures it across them.

    Args:
        detector: by default the bundled one.
    """

    name = DETECTOR
    estimate = False
    criteria = (ABSTENTION,)

    def __init__(self, detector: AbstentionDetector | None = None) -> None:
        self._detector = AbstentionDetector() if detector is None else detector

    def version(self, criterion: str) -> str:
        """Of weights and patterns."""
        return sha256_of(criterion, self._detector.fingerprint.model_dump_json())

    def wants(self, criterion: str, material: JudgedReply, known: Known) -> bool:
        """Always."""
        del criterion, material, known
        return True

    async def judge(self, criterion: str, material: JudgedReply, known: Known) -> Verdict:
        """Yes or no, with the probability of yes."""
        del criterion, known
        return self.verdict(material)

    def verdict(self, material: JudgedReply) -> Verdict:
        """The same, for callers without an event loop."""
        citation = Citation.UNKNOWN if material.citation is None else material.citation
        found = self._detector.detect(material.reply, question=material.question, citation=citation)
        return Verdict("yes" if found.abstained else "no", probability=found.probability)
