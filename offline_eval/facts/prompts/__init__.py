"""The prompts of building a knowledge base: text files, each replaceable by the user."""
