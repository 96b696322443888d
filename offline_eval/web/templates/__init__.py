"""Templates of the pages; a package, so that builds carry its files."""

from __future__ import annotations
