"""Prompts of the UniKnow suite, one file each, with `{context}` and `{question}` to fill."""

from __future__ import annotations
