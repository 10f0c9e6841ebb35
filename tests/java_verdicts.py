"""What Java says of expressions and names, recorded: the measure of `engine.patterns.java`.

    python -m tests.java_verdicts        records anew, with the Java that Spark would run on

Expressions are drawn by a fixed seed from what Java's grammar has: more of it than anybody writes in a list
of tables. Names have the characters on which engines differ: letters that fold to ASCII ones in Unicode
alone, line ends, signs beyond the basic plane.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it ships no types
from pyspark.errors import IllegalArgumentException

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RECORDED = Path(__file__).parent / "unit/engine/patterns/java_verdicts.json"
WRONG, BROKEN = "E", "?"
"""Stand for the verdicts of an expression that Java refuses, and of one that it fails on by its own fault."""

NAMES = (
    *(
        "",
        "a",
        "A",
        "b",
        "ab",
        "aa",
        "aaa",
        "aab",
        "ba",
        "a1",
        "a-b",
        "a b",
        "z",
        "Z",
        "1",
        "9",
        "_",
        "-",
        ".",
    ),
    *(
        "K",
        "k",
        "\u212a",
        "s",
        "S",
        "\u017f",
        "é",
        "É",
        "ß",
        "İ",
        "\u0131",
        "Ω",
        "aé",
        "\U0001f600",
        "&",
        "]",
        "}",
        "^",
    ),
    *("$", " ", "\n", "\r", "\r\n", "a\n", "a\r\n", "b\u2028", "\u2028", "\x85", "\x0b", "\0"),
    *("public.orders", "PUBLIC.Orders", "public.old", "a.b"),
)
WRITTEN = (
    *("public.orders", r"public\.orders", "public.*", r"public\.(orders|customers)", "(?i)PUBLIC.orders"),
    *(r"public\.(\w+)*\.old", r"public\.(?!tmp_).*", r"(?<!x)a", r"(a)\1", "a*+b", "(?>a)b"),
    *(r"\Qpublic.orders\E", r"\Qa", "[]a]", "[^]a]", "[a&&b]", "[a-z&&[^b-d]]", "[a[b]]", r"[\w-.]", "a{,3}"),
    *("a{2}{3}", "{", "}", "]", "a{", "^a$", "a|b$", "(a$|b)c", r"a\Z", r"a\z", r"\Aa", "a?b+c*", "a{1000}"),
    *(
        r"\bpublic\b.*",
        r"\R",
        r"\X",
        r"\h",
        r"\v",
        r"\G",
        "(?x) a",
        "(?u)é",
        r"(?U)\w",
        r"\p{L}+",
        r"\p{IsLatin}",
    ),
)
ATOMS = (
    *(
        "a",
        "b",
        "A",
        "K",
        "s",
        "k",
        "S",
        "_",
        "-",
        ".",
        "é",
        "É",
        "\u017f",
        "\u212a",
        "\n",
        "\r",
        "1",
        "9",
        " ",
        "ß",
    ),
    *(
        "\u2028",
        "\x85",
        "\U0001f600",
        "&",
        "]",
        "}",
        "^",
        "$",
        r"\.",
        r"\d",
        r"\D",
        r"\w",
        r"\W",
        r"\s",
        r"\S",
    ),
    *(r"\h", r"\H", r"\v", r"\V", r"\R", r"\b", r"\B", r"\A", r"\Z", r"\z", r"\p{Lower}", r"\p{Upper}"),
    *(
        r"\P{Alpha}",
        r"\p{Lu}",
        r"\P{L}",
        r"\pL",
        r"\p{Punct}",
        r"\p{LC}",
        r"\p{L1}",
        r"\p{C}",
        r"\x41",
        r"\x{e9}",
    ),
    *(
        r"\u0041",
        r"\0101",
        r"\t",
        r"\n",
        r"\e",
        r"\cA",
        r"\-",
        r"\_",
        r"\Qa.b\E",
        r"\Q1\E",
        "\\",
        r"\é",
        r"\y",
    ),
    *("public", "orders", ".*", r"\p{javaLowerCase}", r"\1", r"\G", r"\08", "(?i)", "(?-i)", "(?s)", "(?m)"),
)
MEMBERS = (
    *"abcAKskzZ09_-.&^]é[\n ",
    *(
        "a-c",
        "A-Z",
        "a-z",
        "0-9",
        "J-m",
        "é-ü",
        "+-/",
        r"\x41-\x5a",
        r"\w",
        r"\D",
        r"\s",
        r"\p{Lower}",
        r"\P{Lu}",
    ),
    *(r"\h", r"\v", r"\.", r"\]", r"\-", r"\Qa-\E", r"\b", r"\R", "&&", "&&[a-f]", "&&[^b]", r"&&\w", "&&K"),
)
GROUPS = ("(", "(?:", "(?<n>", "(?i:", "(?s-i:", "(?-i:", "(?=", "(?>")
QUANTIFIERS = ("*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "+?", "{,2}", "*+")


def drawn(seed: int, count: int) -> list[tuple[str, bool]]:
    """Expressions, and whether case is to be ignored."""
    chance = random.Random(seed)
    return [(_expression(chance), chance.random() < 0.5) for _ in range(count)]


def _expression(chance: random.Random, depth: int = 0) -> str:
    parts = []
    for _ in range(chance.randint(0, 4)):
        kind = chance.random()
        if kind < 0.6 or (kind > 0.75 and depth == 3):
            part = chance.choice(ATOMS)
        elif kind < 0.75:
            part = _members(chance)
        else:
            part = chance.choice(GROUPS) + _expression(chance, depth + 1) + ")"
        part += chance.choice(QUANTIFIERS) if chance.random() < 0.3 else ""
        parts.append(part + ("|" if chance.random() < 0.12 else ""))
    return "".join(parts)


def _members(chance: random.Random, depth: int = 0) -> str:
    inside = [
        _members(chance, depth + 1) if chance.random() < 0.1 and depth < 2 else chance.choice(MEMBERS)
        for _ in range(chance.randint(0, 4))
    ]
    return f"[{'^' if chance.random() < 0.25 else ''}{''.join(inside)}]"


def verdicts(jvm: Any, expressions: Iterable[tuple[str, bool]], names: Sequence[str] = NAMES) -> list[str]:
    """For each expression a digit per name, 1 where Java matches the whole of it, or WRONG."""
    pattern = jvm.java.util.regex.Pattern
    found = []
    for expression, ignore_case in expressions:
        try:
            compiled = pattern.compile(expression, pattern.CASE_INSENSITIVE if ignore_case else 0)
            found.append("".join(str(int(compiled.matcher(name).matches())) for name in names))
        except IllegalArgumentException:  # how a session of Spark's tells of it
            found.append(WRONG)
        except Py4JJavaError as error:
            found.append(WRONG if "PatternSyntaxException" in str(error) else BROKEN)
    return found


def recorded() -> list[tuple[str, bool, str]]:
    """What was recorded: expressions, whether case was ignored, and Java's verdicts on NAMES."""
    document = json.loads(RECORDED.read_text())
    assert tuple(document["names"]) == NAMES
    return [(expression, ignore_case, said) for expression, ignore_case, said in document["verdicts"]]


def _record() -> None:
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415  (starts a JVM)

    gateway = launch_gateway()
    expressions = [
        (expression, ignore_case) for expression in WRITTEN for ignore_case in (False, True)
    ] + drawn(23, 2500)
    said = verdicts(gateway.jvm, expressions)
    lines = [json.dumps([*expression, digits]) for expression, digits in zip(expressions, said, strict=True)]
    java = json.dumps(gateway.jvm.java.lang.System.getProperty("java.version"))
    text = f'{{"java": {java}, "names": {json.dumps(NAMES)}, "verdicts": [\n' + ",\n".join(lines) + "\n]}\n"
    RECORDED.write_text(text)
    gateway.shutdown()


if __name__ == "__main__":
    _record()
