"""Conflicts of context and memory: what does a model do when a passage contradicts it?

    questions ─► beliefs ─► evidence (NC, HPC, HPCE, LPC), checked ─► instances, four options
                                                                          │
    report ◄─ scores ◄─ rows ◄─ tasks KF, CK, PK, PCK, RAG  ◄─────────────┘

Source: "What Is Seen Cannot Be Unseen: The Disruptive Effect of Knowledge Conflict on Large
Language Models".
"""

from __future__ import annotations
