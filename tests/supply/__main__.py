"""Complete the bill of materials, or ask OSV what is known against the jars in it.

python -m tests.supply sbom build/sbom.json      adds the jars to what cyclonedx-py has written
python -m tests.supply audit                     1: something is known; 2: OSV could not be asked
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.supply.jars import jars

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.supply.jars import Jar

OSV = "https://api.osv.dev/v1/querybatch"
_TIMEOUT_S = 60


def complete(path: Path, found: Sequence[Jar]) -> None:
    """Add the jars to a bill of Python packages."""
    bill = json.loads(path.read_text())
    bill["components"] = [*bill.get("components", ()), *(jar.component() for jar in found)]
    path.write_text(json.dumps(bill, indent=2) + "\n")


def known(found: Sequence[Jar], url: str = OSV) -> dict[str, list[str]]:
    """The advisories of each package that has some. Raises URLError, or ValueError for another answer."""
    asked = [jar.purl for jar in found if jar.group]
    body = json.dumps({"queries": [{"package": {"purl": purl}} for purl in asked]}).encode()
    request = Request(url, body, {"Content-Type": "application/json"})  # noqa: S310  the address is ours
    with urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310  the same
        results = json.load(answer)["results"]
    advisories = {
        purl: [advisory["id"] for advisory in result.get("vulns", ())]
        for purl, result in zip(asked, results, strict=True)
    }
    return {purl: ids for purl, ids in advisories.items() if ids}


def main(arguments: Sequence[str]) -> int:
    """Do what the first argument says; the status to exit with."""
    found = jars()
    if arguments[0] == "sbom":
        complete(Path(arguments[1]), found)
        return 0
    try:
        advisories = known(found)
    except (URLError, ValueError, KeyError) as error:
        print(f"OSV can't be asked: {error}")
        return 2
    for purl, ids in advisories.items():
        print(f"{purl}: {', '.join(ids)}")
    unknown = [jar.artifact for jar in found if not jar.group]
    print(f"{len(advisories)} of {len(found)} jars have advisories; not asked for: {', '.join(unknown)}")
    return 1 if advisories else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
