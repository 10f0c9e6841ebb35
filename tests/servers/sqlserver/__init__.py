"""A stand-in for SQL Server: PostgreSQL with `sys` and `cdc` schemas, addressed in T-SQL.

    with SqlServer() as server:                      # or SqlServer(on=a_running_PostgresServer)
        shop = server.create_database("shop")        # with CDC enabled; cdc=False: without
        shop.execute("CREATE TABLE dbo.t (id int IDENTITY(1, 1) PRIMARY KEY, name nvarchar(50) NULL)")
        shop.enable_cdc("dbo.t")                     # capture instance dbo_t; or a second one:
        shop.enable_cdc("dbo.t", "dbo_t_2", columns=["id"])
        shop.execute("INSERT INTO dbo.t (name) VALUES (N'a'), (N'b')")
        shop.query("SELECT [id] FROM [dbo].[t]")     # a list of tuples
        with shop.transaction() as session:          # a new connection, committed at the end
            session.execute("UPDATE dbo.t SET name = N'c' WHERE id = 1")
        shop.capture()                               # one pass of the capture job
        server.start_capture(delay_s=0.05)           # or a thread for it; `delay_s` can be set at any time
        shop.dummy_entry()                           # the capture job's dummy entry on an idle database
        shop.max_lsn()                               # '00000025:00000d98:00a2', '' if nothing was captured
        shop.cleanup(lsn)                            # retention: removes changes before that LSN
        shop.disable_cdc("dbo_t")
        copied = shop.back_up()                      # a backup, or a replica that lags
        shop.take_over(copied)                       # restored or forced over: a new recovery fork
        shop.plan_failover()                         # all sessions end, nothing is lost
        server.agent_running = False                 # no capture; the status query says 0
        server.reach                                 # for `job_of(lambda settings: server.reach).run(…)`
        server.settings("shop", …)                   # SqlServerSettings with these databases
        server.properties("shop", …)                 # a job's properties
        server.statements                            # every T-SQL text that went through `reach`
        server.reset()                               # drops all databases, forgets statements

Like the real server:

- Commits are captured in commit order, some time after the commit.
- Change LSNs are assigned when rows are written, commit LSNs at the commit, from one sequence.
- An update is a pair of rows with one change LSN.
- An update of keys is all deletes, then all inserts by their command ids, with the same change LSNs.
- Large values that an update left unchanged are NULL in its old row; computed columns are NULL.
- An instance has the columns that existed when it was made.
- Texts compare case-insensitively unless their collation says otherwise (`_CS_`, `_BIN2`).
- GUIDs sort by their last group first; temporal values have seven digits.

Unlike the real server:

- Lock hints other than TABLOCKX are ignored.
- Trailing blanks count when texts are compared.
- Only the T-SQL that the adapter and the tests use is supported.
- Change tables do not record ALTER COLUMN.
"""

from tests.servers.sqlserver.server import Session, SqlServer, StandInDatabase

__all__ = ["Session", "SqlServer", "StandInDatabase"]
