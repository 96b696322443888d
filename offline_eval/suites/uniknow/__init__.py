"""The UniKnow suite: what a model does with context and memory in each knowledge scenario.

    data set ─► knowledge (sampled closed-book answers) ─► contexts ─► cases
             ─► methods: prompted, contrastive, trained, and guards over them ─► rows

Source: "UniKnow: A Unified Framework for Reliable Language Model Behavior across
Parametric and External Knowledge".
"""

from __future__ import annotations
