"""The depth of the sources on PostgreSQL: the real adapter over a simulated server."""
