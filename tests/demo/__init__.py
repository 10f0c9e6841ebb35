"""The demo: a snapshot under a live write load, replayed and compared with its source."""
