"""A refused login is retried only if it has worked before, and may be another one by then."""

from __future__ import annotations

from uuid import uuid4

import pytest

from adapters.source.admission import admission
from engine.errors import ConfigError, LoginRefused, TidemarkError


@pytest.mark.parametrize(
    ("worked", "renewable", "expected"),
    [
        pytest.param(False, True, ConfigError, id="it has never worked"),
        pytest.param(True, True, LoginRefused, id="it has worked, and may be renewed"),
        pytest.param(True, False, ConfigError, id="it has worked, and stays what it is"),
    ],
)
def test_a_refusal_is_retried_if_a_retry_may_help(
    worked: bool,  # noqa: FBT001
    renewable: bool,  # noqa: FBT001
    expected: type[TidemarkError],
):
    login = (str(uuid4()), "user")
    if worked:
        with admission(login):
            pass

    with pytest.raises(expected) as caught, admission(login, renewable=renewable):
        raise LoginRefused("no such password", where="server", hint="check it")

    assert type(caught.value) is expected
    assert str(caught.value) == "server: no such password; check it"


def test_other_errors_pass():
    with pytest.raises(KeyError), admission((str(uuid4()),)):
        raise KeyError("ours")
