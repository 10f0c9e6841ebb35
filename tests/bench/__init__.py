"""Benchmarks: the job beside what PostgreSQL's own tools reach on the same database in the same run."""
