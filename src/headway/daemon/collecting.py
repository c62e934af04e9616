"""The garbage collector of a daemon: most of what it knows stays, and a long queue has large tables."""

import gc

NEW_OBJECTS = 20_000  # a look at the young walks through the newest tables: with 10,000 jobs that takes 2 ms


def settle() -> None:
    """Call it once all that was saved is loaded: no collection looks through that again, and few through the rest."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, 10, 10)
