"""Which jobs and services words mean: ids, names, `tag=eval`, `state=queued`, several joined by a comma."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase

from headway.api.parts import find
from headway.core import words
from headway.core.model import HolderId, Job, Snapshot
from headway.errors import NotFound, Refused

OF_ENDED = (
    "retry",
    "clear",
)  # verbs whose groups mean jobs that are over; all others mean those that are not
Test = Callable[[Job, str, Snapshot], bool]


def _label(job: Job, value: str, s: Snapshot) -> bool:
    name, given, wanted = value.partition(":")
    return name in job.spec.labels and (not given or fnmatchcase(job.spec.labels[name], wanted))


TESTS: Mapping[str, Test] = {
    "id": lambda job, value, s: fnmatchcase(job.id, value),
    "name": lambda job, value, s: fnmatchcase(job.spec.name, value),
    "recipe": lambda job, value, s: fnmatchcase(job.recipe or "", value),
    "tag": lambda job, value, s: any(fnmatchcase(tag, value) for tag in job.spec.tags),
    "label": _label,
    "state": lambda job, value, s: words.state(job, s) == value,
    "placement": lambda job, value, s: job.spec.placement == value,
    "driver": lambda job, value, s: job.spec.driver == value,
}


def is_group(word: str) -> bool:
    """`tag=eval` and its like: no name and no id has such a sign."""
    return "=" in word


def tests(word: str) -> list[tuple[Test, str]]:
    """What a job must be to be meant by a group.

    Raises:
        Refused: it says something that no job has.
    """
    found = []
    for part in word.split(","):
        key, sign, value = part.strip().partition("=")
        if not sign or key not in TESTS or not value:
            raise Refused(
                "invalid",
                f"{word!r} selects nothing that is known: write {', '.join(f'{k}=...' for k in TESTS)}, "
                "with commas between what must hold together, and * for any letters.",
                selector=word,
            )
        if key == "state" and value not in words.JOB_STATES:
            raise Refused(
                "invalid",
                f"no job is ever {value!r}. The states are: {', '.join(words.JOB_STATES)}.",
                state=value,
            )
        found.append((TESTS[key], value))
    return found


def matches(job: Job, word: str, s: Snapshot) -> bool:
    return all(test(job, value, s) for test, value in tests(word))


def select(s: Snapshot, targets: Iterable[str], every: bool, verb: str) -> tuple[HolderId, ...]:
    """Ids in the order of the words, jobs of a group in the order in which they came; none twice.

    Args:
        every: all jobs that the verb can mean.

    Raises:
        NotFound: an id or name that is not known, or a group without a member.
        Refused: a name that several have, or a group that says nothing.
    """
    over = verb in OF_ENDED
    jobs = [h for h in s.holders.values() if isinstance(h, Job) and (h.ended is not None) == over]
    jobs.sort(key=lambda job: (job.enqueued_s, job.id))
    found: dict[HolderId, None] = dict.fromkeys(job.id for job in jobs if every)
    for word in targets:
        if not is_group(word):
            found[find(s, word)] = None
            continue
        wanted = tests(word)
        group = [job.id for job in jobs if all(test(job, value, s) for test, value in wanted)]
        if not group:
            which = "that is over" if over else "that is not over"
            raise NotFound(f"no job {which} is {word}. `headway ps -a` lists all jobs.", target=word)
        found |= dict.fromkeys(group)
    return tuple(found)
