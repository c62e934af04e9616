"""How large the built page is: `python -m bench.page_parts.file`. Prints one JSON object."""

from __future__ import annotations

import gzip
import json

from headway.api.web import FILE


def main() -> None:
    if not FILE.exists():
        raise SystemExit(f"{FILE} is not there. Build the page: `make page`.")
    html = FILE.read_bytes()
    print(json.dumps({"bytes": len(html), "gz_bytes": len(gzip.compress(html))}))


if __name__ == "__main__":
    main()
