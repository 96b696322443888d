"""The judge-bias suite: does a judge go by the context, or by what it believes?

    questions ─► the judge's beliefs ─► four cases each ─► verdicts ─► judge_bias.json
                                                                           │
                         a warning beside the judge's numbers  ◄───────────┘

Prompts are files, replaceable by a folder.
"""

from __future__ import annotations
