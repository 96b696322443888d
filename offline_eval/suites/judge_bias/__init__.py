"""The judge-bias suite: does a judge go by the context, or by what it believes?

    questions ─► the judge's beliefs ─► four cases each ─► verdicts ─► judge_bias.json
                                                                           │
                         a warning beside the judge's numbers  ◄───────────┘

Prompts are files, replaceable by a folder.
"""

from __future__ import annotations

from ._artefact import (
    JudgeBias,
    bias_warnings,
    judge_bias_warning,
    judge_biases_of,
    keep_judge_biases,
    read_judge_bias,
)
from ._cases import BiasJudge
from ._suite import JUDGE_BIAS, BiasSettings, JudgeBiasSuite

__all__ = [
    "JUDGE_BIAS",
    "BiasJudge",
    "BiasSettings",
    "JudgeBias",
    "JudgeBiasSuite",
    "bias_warnings",
    "judge_bias_warning",
    "judge_biases_of",
    "keep_judge_biases",
    "read_judge_bias",
]
