"""Whether an event may be missing because the scope of the change stream has changed."""

from __future__ import annotations

import pytest

from adapters.mongodb.log.scope_change import scope_change
from adapters.mongodb.saved import SavedCapture
from adapters.mongodb.settings import CaptureScope, MongoSettings


def saved(scope: str, target: str) -> SavedCapture:
    return {"scope": scope, "target": target, "databases": ([], []), "collections": ([], [])}


def settings(scope: str, target: str) -> MongoSettings:
    return MongoSettings(scope=CaptureScope(scope), target=target)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (("deployment", ""), ("database", "shop")),
        (("database", "shop"), ("deployment", "")),
        (("database", "shop"), ("database", "other")),
        (("database", "shop"), ("collection", "shop.t")),
    ],
)
def test_an_error_names_both_scopes(before: tuple[str, str], now: tuple[str, str]):
    error = scope_change(saved(*before), settings(*now))

    assert error is not None
    assert f"'capture.scope={before[0]}'" in str(error)
    assert f"can't be continued with 'capture.scope={now[0]}'" in str(error)
    assert all(f"'capture.target={target}'" in str(error) for _scope, target in (before, now) if target)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (("database", "shop"), ("database", "shop")),
        (("deployment", ""), ("deployment", "of no use")),
    ],
)
def test_there_is_none_for_the_same_scope(before: tuple[str, str], now: tuple[str, str]):
    assert scope_change(saved(*before), settings(*now)) is None


def test_there_is_none_for_a_state_that_says_nothing_of_its_scope():
    assert scope_change(None, MongoSettings()) is None
