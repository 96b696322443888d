"""The labelling page; a package, so that builds carry its files."""
