"""One module a tool: how its files are recognised and read as records."""
