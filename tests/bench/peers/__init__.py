"""The real Debezium beside us: its embedded engine on the same database in the same run."""
