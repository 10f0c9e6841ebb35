"""The suites, and what they stand on: servers, fakes, strategies, recorded cases."""
