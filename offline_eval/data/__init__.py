"""Knowledge bases: questions with answers, and the passages they are asked against."""

from __future__ import annotations
