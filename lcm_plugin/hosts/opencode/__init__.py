"""opencode: a small plugin of its own runs inside it, in front of a process that serves it."""
