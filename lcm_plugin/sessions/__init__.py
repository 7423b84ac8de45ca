"""Sessions: which ones are stored at all, and how they begin, are pruned, and end."""
