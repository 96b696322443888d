"""Files that the relevance scorers carry."""

from __future__ import annotations
