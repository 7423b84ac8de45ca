"""What pages and the JSON API show: plain dicts, read through the engine."""
