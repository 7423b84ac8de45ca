"""The recall tools as an MCP server, for hosts that cannot be extended."""
