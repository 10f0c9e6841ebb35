"""Real servers for tests, the demo and the benchmarks: embedded binaries, no Docker."""
