"""The ports: what the engine requires of a source, a sink, the state store and the executors.

Owns the Protocols, the values that cross them, and what an implementation must guarantee. The suites in
`tests/conformance` check every implementation.
"""
