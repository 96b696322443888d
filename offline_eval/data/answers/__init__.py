"""Answers in texts: find them, tell their kind, and put others in their place.

answer in its text ─► kind and form ─► other answers of the same sort ─► the text with one of them
"""

from __future__ import annotations
