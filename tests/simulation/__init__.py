"""The deterministic simulator: the engine's own code over a simulated world. See SPECIFICATION.md."""
