"""`lcm web`: pages and a JSON API over one database, on this machine only (extra ``web``)."""
