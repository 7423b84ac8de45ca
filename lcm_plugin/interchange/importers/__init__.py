"""Bringing histories of other tools in: one module per format, one stream of records, one loader."""
