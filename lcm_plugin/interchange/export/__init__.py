"""Conversations as pages that a person reads: Markdown, and one HTML page that works without a network."""
