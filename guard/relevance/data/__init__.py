"""Files that the relevance scorers carry."""
