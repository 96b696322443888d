"""Training: relevance scorers on question sets, language models on the knowledge scenarios."""

from __future__ import annotations
