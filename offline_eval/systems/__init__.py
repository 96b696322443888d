"""Systems under test: models × prompts × retrievals × guards, asked or replayed.

    questions ─► cases ─► context (once per retrieval) ─► guard ─► model ─► a row of replies

A guard decides on the question and its passages before anything is asked: what it lets
through is answered from the passages it kept, or from memory; else its own reply stands.

Importing this package makes the scorer `judge:MODEL` known, a language model by name.
"""

from __future__ import annotations
