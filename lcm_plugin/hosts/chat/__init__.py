"""A small complete agent of our own: the worked example of the contract with a host."""
