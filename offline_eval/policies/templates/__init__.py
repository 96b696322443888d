"""Templates of the calibration report; data, not code."""

from __future__ import annotations
