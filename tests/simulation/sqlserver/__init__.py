"""SQL Server's world."""
