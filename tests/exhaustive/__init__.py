"""The engine's decisions, tried in every order within bounds: `python -m tests.exhaustive`."""
