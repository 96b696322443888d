"""Does a language model that judges replies judge by the context, or by what it believes?

    questions ─► the judge's beliefs ─► four cases each ─► verdicts ─► judge_bias.json
                                                                           │
                         a warning beside the judge's numbers  ◄───────────┘

Add nothing here for another judge: name it. Prompts are files, replaceable by a folder.
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
from ._measuring import JudgeBiasPlan, measure_judge_bias

__all__ = [
    "BiasJudge",
    "JudgeBias",
    "JudgeBiasPlan",
    "bias_warnings",
    "judge_bias_warning",
    "judge_biases_of",
    "keep_judge_biases",
    "measure_judge_bias",
    "read_judge_bias",
]
