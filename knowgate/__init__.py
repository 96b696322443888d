"""knowgate: a guard for retrieval-augmented generation.

`knowgate.guard` is the online path, `knowgate.calibration` makes its policy,
`knowgate.adapters` connects it to other software, and `knowgate.offline_eval`
measures it before deployment.
"""

from knowgate._version import __version__

__all__ = ["__version__"]
