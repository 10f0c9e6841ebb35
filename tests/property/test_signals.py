"""Any text as a signal gives a command or a SignalError, and always one line of answer."""

from __future__ import annotations

import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from engine.errors import SignalError
from engine.expressions import bounded_matcher
from engine.model import Channel, CollectionId, ExecuteSnapshot, StopSnapshot
from signals.answers import accepted, line, rejected
from signals.model import Signal
from signals.parse.commands import AcceptedSignal, parse
from signals.parse.names import KnownNames, match_names

KNOWN = tuple(CollectionId(("public", name)) for name in ("a", "B", "My.Table", 'we"ird', "tmp_a"))

types = st.sampled_from(["execute-snapshot", "stop-snapshot", "log", "execute-snapsht", "", None])
texts = st.text() | st.sampled_from(
    ["public.a", "public.*", '"public"."My.Table"', "incremental", "blocking", "(", "id > 3", r"\p{Lu}\Q"]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
entries = st.fixed_dictionaries({}, optional={"data-collection": json_values, "filter": json_values})
objects = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["incremental", "INCREMENTAL"]) | json_values,
        "data-collections": st.lists(texts, max_size=4) | json_values,
        "additional-condition": json_values,
        "additional-conditions": st.lists(entries, max_size=3) | json_values,
        "surrogate-key": json_values,
        "message": json_values,
        "stray": json_values,
    },
)
data = (
    st.none()
    | st.text()
    | st.binary().map(lambda raw: raw.decode("latin-1"))
    | objects.map(lambda value: orjson.dumps(value).decode())
)


def answered(signal: Signal) -> AcceptedSignal | SignalError:
    """What parsing gives; the answer must be a printable line either way."""
    result: AcceptedSignal | SignalError
    try:
        result = parse(signal, KnownNames(KNOWN, bounded_matcher))
        answer = accepted(signal, result)
    except SignalError as error:
        result = error
        answer = rejected(signal, error)
    text = line(answer)
    assert text.isprintable()
    assert str(answer.outcome) in text
    return result


@given(st.none() | st.text(), types | st.text(), data)
@example(None, "execute-snapshot", '{"data-collections": ["\\ud800"]}')
@example("1", "execute-snapshot", '{"data-collections": ["' + "(" * 900 + '"]}')
@example("1", "execute-snapshot", "[" * 100_000)
@example("1", "execute-snapshot", "\ud800")
def test_any_text_gives_a_command_or_a_signal_error(id_, type_, text):
    result = answered(Signal(Channel.SOURCE, "0/1", id_, type_, text))

    if isinstance(result, AcceptedSignal):
        assert result.command.signal == "0/1"


@given(st.lists(texts, max_size=4))
def test_only_known_collections_are_named_and_each_once(patterns):
    text = orjson.dumps({"data-collections": patterns, "type": "incremental"}).decode()
    for type_ in ("execute-snapshot", "stop-snapshot"):
        result = answered(Signal(Channel.SOURCE, "0/1", None, type_, text))
        if isinstance(result, SignalError):
            continue
        match result.command:
            case ExecuteSnapshot(targets=targets):
                named = tuple(target.collection for target in targets)
            case StopSnapshot(collections=collections):
                named = collections or ()
        assert len(set(named)) == len(named)
        assert set(named) <= set(KNOWN)
        assert named or not patterns


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), min_size=1, max_size=3
    )
)
def test_a_quoted_name_names_exactly_itself(parts):
    wanted = CollectionId(tuple(parts))
    quoted = ".".join('"' + part.replace('"', '""') + '"' for part in parts)

    assert match_names(quoted, KnownNames([*KNOWN, wanted], bounded_matcher)).collections[-1:] == (wanted,)


@given(st.text(st.characters(codec="utf-8", exclude_characters='\0"'), min_size=1))
def test_an_escaped_name_names_itself(name):
    wanted = CollectionId(("public", name))
    # the escapes that every dialect of regular expressions shares: a backslash before punctuation
    escaped = "".join(
        "\\" + character if character in r"\.^$*+?()[]{}|#&~- " else character for character in str(wanted)
    )

    assert wanted in match_names(escaped, KnownNames([*KNOWN, wanted], bounded_matcher)).collections


@given(st.text())
def test_any_pattern_is_matched_or_refused(pattern):
    try:
        match = match_names(pattern, KnownNames(KNOWN, bounded_matcher))
    except SignalError:
        return

    assert set(match.collections) <= set(KNOWN)
