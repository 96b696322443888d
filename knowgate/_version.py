"""The version of the distribution, read by the build and stamped into every artefact."""

__version__ = "0.3.0"
CREATED_BY = f"knowgate {__version__}"
