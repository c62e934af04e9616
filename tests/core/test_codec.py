"""Records survive a trip through JSON; what is wrong in a document is named."""

import json
import sys
import time
import types
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.codec import dumps, from_doc, loads, to_doc
from headway.core.commands import AddJob
from headway.core.model import (
    GIB,
    Exit,
    Form,
    Gate,
    Holder,
    Job,
    JobSpec,
    Lease,
    MoveRule,
    Pending,
    Run,
    Service,
    ServiceSpec,
    Spec,
)

pytestmark = pytest.mark.core

# What may stand in an `Any`: JSON, with lists only (a tuple comes back as a list).
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=3,
)
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=8),
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    type(None): st.none(),
    Any: anything,
}


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of that type, made from the same hints but by other code than the codec's."""
    if hint in SCALARS:
        return SCALARS[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (Union, types.UnionType):
        return st.one_of(*(values(arg) for arg in args))
    if origin is tuple and args[-1] is ...:
        return st.lists(values(args[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*(values(arg) for arg in args))
    if origin is Mapping:
        return st.dictionaries(st.text(max_size=4), values(args[1]), max_size=2)
    assert is_dataclass(hint), hint
    return records(hint)


def records(cls: Any) -> st.SearchStrategy[Any]:
    hints = get_type_hints(cls)
    return st.builds(cls, **{f.name: values(hints[f.name]) for f in fields(cls)})


@pytest.mark.parametrize(
    "cls", [Job, Service, Lease, Pending, JobSpec, ServiceSpec, Holder, AddJob], ids=lambda cls: cls.__name__
)
@settings(max_examples=25)
@given(data=st.data())
def test_comes_back_equal(cls: type[Any], data: st.DataObject) -> None:
    record = data.draw(records(cls))
    text = dumps(record)
    assert loads(cls, text) == record
    assert dumps(loads(cls, text)) == text


def a_job() -> Job:
    forms = tuple(
        Form(name=name, declared_bytes=14 * GIB, learned_bytes=13 * GIB)
        for name in ("running", "frozen", "parked", "stopped")
    )
    moves = tuple(
        MoveRule(source=source, to=to, limit_s=10.0, frees=True)
        for source, to in (
            ("running", "parked"),
            ("parked", "running"),
            ("running", "stopped"),
            ("stopped", "running"),
        )
    )
    spec = JobSpec(
        name="train", kind="job", driver="restart", forms=forms, moves=moves, argv=("python", "train.py")
    )
    return Job(
        id="7",
        kind="job",
        spec=spec,
        forms=forms,
        devices=("n/GPU-1",),
        seen_bytes={"n/GPU-1": 13 * GIB},
        run=Run(id="7-1", lock_held=True, pid=4711, exit=Exit(code=-9)),
        note_facts={"free": [1, None]},
    )


def test_every_field_is_written_also_at_its_default() -> None:
    """A default that changes later must not change what was stored."""
    doc = to_doc(a_job())
    assert set(doc) == {f.name for f in fields(Job)}
    assert doc["wish"] == "run" and doc["spec"]["forms"][0]["host_bytes"] is None
    assert doc["devices"] == ["n/GPU-1"] and type(doc["spec"]["argv"]) is list
    assert json.loads(json.dumps(doc)) == doc


def test_the_text_is_compact_and_sorted() -> None:
    assert dumps(Gate(wish="open", rev=3)) == (
        '{"closed":false,"closing_since_s":null,"pinning":0,"rev":3,"stuck_s":null,"wish":"open"}'
    )


def test_bytes_in_an_argument_that_are_no_text_survive() -> None:
    spec = Spec(name="a", kind="job", driver="d", forms=(), moves=(), argv=("\udcff",))
    assert loads(Spec, dumps(spec).encode("utf-8").decode("utf-8")) == spec


def test_unknown_keys_are_ignored_and_missing_ones_take_the_default() -> None:
    assert from_doc(Gate, {"rev": 4, "from_a_newer_version": [1]}) == Gate(rev=4)


def test_a_whole_number_is_a_number() -> None:
    run = from_doc(Run, {"id": "a", "lock_held": True, "seen_s": 3})
    assert run.seen_s == 3.0 and type(run.seen_s) is float


WRONG = {
    # name: (class, change to a good document, words the message must have)
    "text for a number":       (Job, {"runs": "7"}, "Job.runs: expected a whole number"),
    "a fraction for a count":  (Job, {"runs": 1.5}, "Job.runs"),
    "true for a count":        (Job, {"runs": True}, "Job.runs"),
    "one for true":            (Job, {"frozen_by_gate": 1}, "Job.frozen_by_gate: expected true or false"),
    "none where none is not":  (Job, {"id": None}, "Job.id: expected text"),
    "no such word":            (Job, {"wish": "maybe"}, "Job.wish: expected one of run, hold"),
    "list word":               (Job, {"wish": ["run"]}, "Job.wish"),
    "text for a list":         (Job, {"devices": "n/GPU"}, "Job.devices: expected a list"),
    "wrong item":              (Job, {"devices": ["a", 3]}, "Job.devices[1]: expected text"),
    "wrong value in a table":  (Job, {"seen_bytes": {"n/GPU-1": None}}, "Job.seen_bytes.n/GPU-1"),
    "list for a table":        (Job, {"seen_bytes": []}, "Job.seen_bytes: expected a table"),
    "text for a record":       (Job, {"run": "r"}, "Job.run: expected a Run"),
    "deep inside":             (Job, {"run": {"id": "a", "lock_held": True, "exit": {"code": "x"}}}, "Job.run.exit.code"),
    "in an item's field":      (JobSpec, {"forms": [{"name": "a"}, {"name": 1}]}, "JobSpec.forms[1].name"),
    "missing in a record":     (Job, {"run": {"id": "a"}}, "Job.run.lock_held: expected a value"),
}  # fmt: skip


@pytest.mark.parametrize(("cls", "change", "words"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_value_is_named(cls: type[Any], change: dict[str, Any], words: str) -> None:
    job = a_job()
    doc = to_doc(job if cls is Job else job.spec) | change
    with pytest.raises(ValueError) as raised:
        from_doc(cls, doc)
    assert words in str(raised.value)


def test_no_document_at_all_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected a Gate"):
        from_doc(Gate, [])  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        loads(Gate, "{")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    both: tuple[float, str]
    either: int | str | None = None
    free: Any = None


def test_pairs_and_choices() -> None:
    assert loads(Pair, dumps(Pair(both=(1.5, "a"), either="b"))) == Pair(both=(1.5, "a"), either="b")
    with pytest.raises(ValueError, match=r"Pair.both: expected a list of 2"):
        from_doc(Pair, {"both": [1.0]})


def test_what_json_has_no_word_for_is_refused() -> None:
    with pytest.raises(TypeError):
        to_doc(Pair(both=(1.0, "a"), free={1, 2}))
    with pytest.raises(TypeError):
        to_doc(Pair(both=(1.0, "a"), free={1: 2}))
    with pytest.raises(TypeError):
        to_doc("text")
    with pytest.raises(ValueError):
        dumps(Pair(both=(float("inf"), "a")))


def test_a_job_is_written_in_a_fraction_of_a_turn() -> None:
    """50 us is the aim on a quiet machine; this holds ten times that, so that only a rescan of hints fails."""
    job = a_job()
    best_s = min(_timed(job) for _ in range(50))
    assert best_s < 500e-6, f"{best_s * 1e6:.0f} us on {sys.implementation.name}"


def _timed(job: Job) -> float:
    began_s = time.perf_counter()
    to_doc(job)
    return time.perf_counter() - began_s
