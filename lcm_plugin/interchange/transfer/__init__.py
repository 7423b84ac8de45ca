"""Whole rows on their way: from store to store, into a file and back, into a backup."""
