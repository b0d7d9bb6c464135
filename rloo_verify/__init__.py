"""rloo_verify: train reasoning models on verifiable tasks with exact RLOO."""

__version__ = "0.1.0"
