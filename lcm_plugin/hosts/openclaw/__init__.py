"""OpenClaw: its context engine slot, filled by a small plugin in front of a process that serves it."""
