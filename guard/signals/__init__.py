"""Implementations of the signals: relevance, confidence, conflict, answerability."""

from __future__ import annotations
