"""What the page is shown with: one device of 24 GiB, a model, a job that runs beside it, and jobs that wait."""

from tests.e2e.tables import Table, config, python, render, sleeper, tiny, train
from tests.processes import free_port

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
