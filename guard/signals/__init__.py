"""What the guard measures: relevance, confidence, conflict, and vetoes such as answerability."""

from __future__ import annotations
