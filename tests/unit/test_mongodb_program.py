"""What the embedded mongod lacks is named."""

from __future__ import annotations

from tests.servers.mongodb import missing_libraries

LINKED = """\
\tlinux-vdso.so.1 (0x00007ffd1b7f2000)
\tlibcurl.so.4 => not found
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f1c2a000000)
\tlibssl.so.3 => not found
"""


def test_libraries_that_are_not_found_are_named():
    assert missing_libraries(LINKED) == ["libcurl.so.4", "libssl.so.3"]
