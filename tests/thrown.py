"""Exceptions of the JVM as py4j shows them, and PySpark's errors that stand for them."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]  # it ships no types


class Thrown:
    """An exception of the JVM. What its class has no method for, py4j refuses."""

    def __init__(self, name: str, message: str = "", cause: Thrown | None = None, **answers: Any) -> None:
        self._name, self._message, self._cause, self._answers = name, message, cause, answers

    def getClass(self) -> Thrown:  # noqa: N802  Java's name
        return self

    def getName(self) -> str:  # noqa: N802  Java's name
        return self._name

    def getMessage(self) -> str:  # noqa: N802  Java's name
        return self._message

    def getCause(self) -> Thrown | None:  # noqa: N802  Java's name
        return self._cause

    def getCondition(self) -> Any:  # noqa: N802  Java's name
        return self._answer("condition")

    def getSQLState(self) -> Any:  # noqa: N802  Java's name
        return self._answer("state")

    def getErrorCode(self) -> Any:  # noqa: N802  Java's name
        return self._answer("number")

    def getClassName(self) -> Any:  # noqa: N802  Java's name
        return self._answer("remote")

    def toString(self) -> str:  # noqa: N802  Java's name
        return f"{self._name}: {self._message}"

    def _answer(self, name: str) -> Any:
        if name not in self._answers:
            raise Py4JError(f"no method for {name} does exist")
        return self._answers[name]


class Raised(Py4JJavaError):  # type: ignore[misc]  # it ships no types
    """What py4j raises, without a JVM to ask for its text."""

    def __init__(self, thrown: Thrown) -> None:
        Exception.__init__(self, "An error occurred while calling o138.collectToPython.")
        self.java_exception = thrown

    def __str__(self) -> str:
        return f"{self.args[0]}\n: {self.java_exception.toString()}\n\tat java.base/java.lang.Thread.run\n"


def raised(thrown: Thrown) -> Exception:
    """What py4j raises for an exception."""
    return Raised(thrown)


def failed_job(cause: Thrown, aborted: str = "Job aborted due to stage failure") -> Exception:
    """What py4j raises for a job of which a task has failed."""
    return raised(Thrown("org.apache.spark.SparkException", aborted, cause, condition=None))
