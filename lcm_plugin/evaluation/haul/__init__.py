"""A long haul: many sessions of generated talk, with resets, branches and killed hosts, and a look at what is left of it."""
