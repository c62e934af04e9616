"""How long the gate takes to read a 200 KB chat request and to put another model's name into it, in microseconds.

python -m bench.gate_parts.rewrite [TIMES]: the median, with whatever `headway` is imported.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

from headway.gate import bodies

BODY_BYTES = 200_000


def body() -> bytes:
    """A chat of many turns."""
    turn = {"role": "user", "content": 'A sentence with "quotes", a line\'s end\n and an umlaut: ü. ' * 16}
    turns = BODY_BYTES // len(json.dumps(turn))
    return json.dumps({"model": "gpt", "temperature": 0.7, "messages": [turn] * turns}).encode()


def main() -> None:
    """Print the median."""
    media, data = "application/json", body()
    times_us = []
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 300):
        began_s = time.perf_counter()
        bodies.rewrite(bodies.read_body(data, media, form=False), media, "served", ollama=False)
        times_us.append((time.perf_counter() - began_s) * 1e6)
    print(f"{statistics.median(times_us):.1f}")


if __name__ == "__main__":
    main()
