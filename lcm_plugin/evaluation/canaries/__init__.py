"""Canaries: exact words planted in a long talk full of tool calls, and asked for after some compactions."""
