"""A job that has nothing to do for an hour, and then something."""
