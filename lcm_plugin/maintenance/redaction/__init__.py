"""Redaction of stored texts: targets, one conversation, the whole database, its copies."""
