"""What the page is shown with: one device of 24 GiB, a model, a job that runs beside it, and jobs that wait."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.stack import Stack
from tests.e2e.tables import Table, config, python, render, sleeper, tiny, train
from tests.processes import Started, free_port

PIN = "page-pin-123456"
WAITING = ("render", "train", "nightly")


def table() -> Table:
    """`talker` prints markup and colours; `render`, `train` and `nightly` want the room that `chat` has."""
    talker = sleeper("talker", placement="share", size="1GiB")
    talker.table["start"] = python("tests.page.talker")
    talker.table["goal"] = "Prints what a page must not believe"
    made = config(
        tiny("chat", "16GiB"),
        talker,
        render(hold=True),
        train(hold=True),
        sleeper("nightly", size="20GiB", tags=["eval"], hold=True),
        max_active_jobs=2,
        gap_min=3600,
    )
    return {**made, "api": {"port": free_port()}}  # a new daemon is found where the page found the old one


@contextmanager
def running(table: Table) -> Iterator[Stack]:
    """A Headway with that config, up while the block lasts; nothing of it is left, however it ends."""
    place = Path(tempfile.mkdtemp(prefix="hw-"))
    (home := place / "home").mkdir(mode=0o700)
    (logs := place / "logs").mkdir()
    started = Started(logs)
    headway = Stack(home, table, started)
    try:
        headway.up()
        yield headway
    finally:
        headway.close()
        started.close()
        shutil.rmtree(place, ignore_errors=True)
