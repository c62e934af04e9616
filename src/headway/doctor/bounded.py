"""Several questions at once, and those that hang are left behind."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any


def within(limit_s: float, questions: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """The answers that came within `limit_s`, by name; an exception is an answer too.

    A question that hangs (a dead network disk, a driver) goes on in a thread that does not keep the process.
    """
    answers: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()

    def ask(name: str, question: Callable[[], Any]) -> None:
        try:
            answers.put((name, question()))
        except Exception as error:
            answers.put((name, error))

    for name, question in questions.items():
        threading.Thread(target=ask, args=(name, question), name=f"doctor-{name}", daemon=True).start()
    until_s = time.monotonic() + limit_s
    found: dict[str, Any] = {}
    while len(found) < len(questions):
        try:
            name, answer = answers.get(timeout=max(0.0, until_s - time.monotonic()))
        except queue.Empty:
            break
        found[name] = answer
    return found
