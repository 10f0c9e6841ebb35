import pytest

from engine.printable import first_named, printable


@pytest.mark.parametrize(
    ("text", "expected"),
    [("plain ü", "plain ü"), ("a\nb", r"a\nb"), ("\x1b[2J", r"\x1b[2J"), ("\u202eabc", r"\u202eabc")],
)
def test_what_a_terminal_would_obey_is_escaped(text, expected):
    assert printable(text) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a, b"),
        (["a", "b", "c"], "a, b and 1 more"),
        (range(5), "0, 1 and 3 more"),
    ],
)
def test_a_long_list_is_cut_and_says_how_much_it_leaves_out(names, expected):
    assert first_named(names, 2) == expected
