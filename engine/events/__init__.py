"""Database text in, Debezium events out: pure, vectorised, and the same for the log and for queries."""
