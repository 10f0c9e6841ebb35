"""Recorded cases: what Debezium 2.1.4 emitted for real SQL, and how ours is compared with it."""
