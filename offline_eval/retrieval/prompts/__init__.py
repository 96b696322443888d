"""Prompts of retrieval and of synthetic questions, as files."""
