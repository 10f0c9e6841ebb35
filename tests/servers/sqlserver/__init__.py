"""A stand-in for SQL Server: PostgreSQL with `sys` and `cdc` schemas, spoken to in T-SQL.

    with SqlServer() as server:                      # or SqlServer(on=a_running_PostgresServer)
        shop = server.create_database("shop")        # CDC is enabled on it; cdc=False: not
        shop.execute("CREATE TABLE dbo.t (id int IDENTITY(1, 1) PRIMARY KEY, name nvarchar(50) NULL)")
        shop.enable_cdc("dbo.t")                     # capture instance dbo_t; or a second one:
        shop.enable_cdc("dbo.t", "dbo_t_2", columns=["id"])
        shop.execute("INSERT INTO dbo.t (name) VALUES (N'a'), (N'b')")
        shop.query("SELECT [id] FROM [dbo].[t]")     # a list of tuples
        with shop.transaction() as session:          # a connection of its own, committed at the end
            session.execute("UPDATE dbo.t SET name = N'c' WHERE id = 1")
        shop.capture()                               # one pass of the capture job
        server.start_capture(delay_s=0.05)           # or a thread that does it; `delay_s` can be set any time
        shop.dummy_entry()                           # the capture job's sign of life on an idle database
        shop.max_lsn()                               # '00000025:00000d98:00a2', '' where nothing was captured
        shop.cleanup(lsn)                            # retention: changes before that LSN go
        shop.disable_cdc("dbo_t")
        server.agent_running = False                 # no capture; the status query says 0
        server.reach                                 # for `job.run(…, reach=lambda settings: server.reach)`
        server.settings("shop", …)                   # SqlServerSettings that name these databases
        server.properties("shop", …)                 # a job's properties
        server.statements                            # every T-SQL text that went through `reach`
        server.reset()                               # drops all databases, forgets statements

What is as on the real server: commits are captured in the order in which they were made, at some time after
them; change LSNs are given when rows are written, commit LSNs at the commit, from one sequence; an update
is a pair of rows under one change LSN, an update of keys deletes and then inserts by their command ids, under
the same change LSNs; large values that an update left alone are NULL in its old row; computed columns are
NULL; an instance has the columns that it had when it was made; texts compare without regard to case unless
their collation says otherwise (`_CS_`, `_BIN2`); GUIDs sort by their last group first; temporal values have
seven digits.

What is not: locks (hints other than TABLOCKX are passed over), trailing blanks count when texts are compared,
dialect beyond what the adapter and the tests say; there is no DDL capture of ALTER COLUMN in change tables.
"""

from tests.servers.sqlserver.server import Session, SqlServer, StandInDatabase

__all__ = ["Session", "SqlServer", "StandInDatabase"]
