"""Readers of public data sets, one module for each layout. No data set is shipped: each is read from a path."""
