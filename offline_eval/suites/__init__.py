"""Evaluation suites: each holds its cases, its way of answering, its metrics and its report."""

from __future__ import annotations

from ._reporting import write_report

__all__ = ["write_report"]
