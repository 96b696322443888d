"""Question templates: by language, and better ones for some properties."""

from __future__ import annotations
