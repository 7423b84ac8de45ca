"""Redaction of stored texts: what is to go, one conversation, the whole database, its copies."""
