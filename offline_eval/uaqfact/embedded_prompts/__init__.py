"""Prompts for the bundled language model, in the words that it was taught."""
