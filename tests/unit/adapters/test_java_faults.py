"""What the JVM has thrown is data: classes, codes and conditions, down to the first cause."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]  # it ships no types

from adapters.java_faults import JavaFault, java_faults
from tests.thrown import Thrown, failed_job, raised


def test_a_failed_job_has_the_error_of_its_task_as_its_cause():
    of_driver = Thrown("org.postgresql.util.PSQLException", "too much", state="08S01", number=0)

    assert java_faults(failed_job(of_driver, "aborted")) == [
        JavaFault("org.apache.spark.SparkException", "aborted"),
        JavaFault("org.postgresql.util.PSQLException", "too much", state="08S01", number=0),
    ]


def test_spark_names_a_condition():
    lost = Thrown("org.apache.spark.SparkException", "gone", condition="CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND")

    assert [fault.condition for fault in java_faults(raised(lost))] == ["CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"]


def test_what_pyspark_has_replaced_is_found():
    class Replaced(Exception):
        _origin = Thrown("java.lang.IllegalArgumentException", "no")

    assert java_faults(Replaced()) == [JavaFault("java.lang.IllegalArgumentException", "no")]


def test_an_error_code_that_is_a_text_is_no_database_s():
    assert java_faults(raised(Thrown("com.amazonaws.AmazonServiceException", number="NoSuchKey"))) == [
        JavaFault("com.amazonaws.AmazonServiceException")
    ]


def test_hadoop_s_exception_for_a_server_s_has_the_server_s_class():
    quota = "org.apache.hadoop.hdfs.protocol.DSQuotaExceededException"
    forwarded = Thrown("org.apache.hadoop.ipc.RemoteException", "full", remote=quota)

    assert java_faults(raised(forwarded)) == [JavaFault(quota, "full")]


def test_of_a_jvm_that_is_gone_as_much_is_known_as_it_said():
    class Last(Thrown):
        def getCause(self) -> Any:  # noqa: N802  Java's name
            raise Py4JNetworkError("Answer from Java side is empty")

    assert java_faults(raised(Last("java.lang.OutOfMemoryError"))) == [
        JavaFault("java.lang.OutOfMemoryError")
    ]


def test_other_errors_have_nothing_of_the_jvm():
    assert java_faults(Py4JError("x")) == java_faults(ValueError("x")) == []
