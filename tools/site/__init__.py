"""The documentation site: the hook of mkdocs, and the pages that are made at build time."""
