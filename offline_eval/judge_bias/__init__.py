"""Does a language model that judges replies judge by the context, or by what it believes?

    questions ─► the judge's beliefs ─► four cases each ─► verdicts ─► judge_bias.json
                                                                           │
                         a warning beside the judge's numbers  ◄───────────┘

Add nothing here for another judge: name it. Prompts are files, replaceable by a folder.
"""

from __future__ import annotations

from ._artefact import JudgeBias, judge_bias_warning, read_judge_bias, write_judge_bias
from ._cases import BiasCase, bias_cases
from ._measuring import CaseVerdict, JudgeBiasPlan, measure_bias, measure_judge_bias
from ._of_run import bias_warnings, judge_biases_of, keep_judge_biases
from ._verdicts import BiasJudge

__all__ = [
    "BiasCase",
    "BiasJudge",
    "CaseVerdict",
    "JudgeBias",
    "JudgeBiasPlan",
    "bias_cases",
    "bias_warnings",
    "judge_bias_warning",
    "judge_biases_of",
    "keep_judge_biases",
    "measure_bias",
    "measure_judge_bias",
    "read_judge_bias",
    "write_judge_bias",
]
