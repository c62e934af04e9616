"""Framing from a grammar: nothing is passed on that nginx refuses, and nobody behind the gate reads other borders.

`GATE_STREAMS=100000` tries that many streams; a failure names its seed.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parts import gate_oracle
from tests.parts.gate_grammar import END, Grammar
from tests.parts.gate_strict import StrictPlay

pytestmark = pytest.mark.contract

STREAMS = int(os.environ.get("GATE_STREAMS", "2500"))


@pytest.fixture
def play() -> Iterator[StrictPlay]:
    made = StrictPlay()
    yield made
    assert made.idle
    made.close()


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[gate_oracle.Oracle]:
    program = gate_oracle.find()
    if program is None:
        missing = "nginx is not installed (Debian: apt install nginx-light)"
        if os.environ.get("HEADWAY_CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    with gate_oracle.oracle(tmp_path, program) as made:
        yield made


def pieces_of(stream: bytes, rng: random.Random) -> list[bytes]:
    cuts = sorted(rng.randrange(len(stream) + 1) for _ in range(rng.choice((0, 1, 4))))
    return [piece for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True) if (piece := stream[a:b])]


@pytest.mark.parametrize("odd", (0.05, 0.12, 0.3))
def test_nothing_passes_that_nginx_refuses_and_every_border_is_the_same(
    play: StrictPlay, nginx: gate_oracle.Oracle, odd: float
) -> None:
    passed = both = 0
    for seed in range(STREAMS // 3):
        stream = Grammar(seed, odd).stream()
        there, _ = nginx.ask(stream)
        here, broken, _ = play.send(pieces_of(stream, random.Random(seed)))
        assert broken == [], (seed, stream)
        assert here == there[: len(here)], (seed, stream)
        passed += len(here)
        both += len(there)
    assert passed > 0.3 * both, "it's not enough to refuse everything"


def test_what_is_right_passes_whole_and_in_order(play: StrictPlay, nginx: gate_oracle.Oracle) -> None:
    for seed in range(STREAMS // 10):
        grammar = Grammar(seed, 0.0)
        stream = b"".join(grammar.request() for _ in range(3)) + END
        there, _ = nginx.ask(stream)
        here, _, got = play.send(pieces_of(stream, random.Random(seed)))
        assert here == there, (seed, stream)
        assert got.count(b"HTTP/1.1 200 OK\r\n") == len(here)


def test_the_judge_can_say_no(play: StrictPlay, nginx: gate_oracle.Oracle) -> None:
    stream = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab" + END
    assert nginx.ask(stream)[0] == play.send([stream])[0] == []
    assert nginx.ask(END)[0] == play.send([END])[0] == [(b"GET", b"/end", b"")]
