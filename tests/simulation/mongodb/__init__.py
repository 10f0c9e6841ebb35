"""The simulated MongoDB: the real adapter over a simulated replica set."""
