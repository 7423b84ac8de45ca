"""Coding agents (Claude Code, Codex): their plugins, and the server that their hooks call."""
