"""The labelling page; a package, so that builds carry its files."""

from __future__ import annotations
