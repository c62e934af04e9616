"""The phrasebook against the source: every code that can be said has its sentence, and none is left over."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from headway import errors
from headway.core import phrases, wishes, words
from headway.core.commands import SetWish
from tests.core.make import Scene

pytestmark = pytest.mark.core

CORE = Path(phrases.__file__).parent


def calls(path: Path, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if called == name:
                yield node


def codes_in(expression: ast.expr, values: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Every text an expression can become: constants, either branch, a prefix or a name with its known values."""
    match expression:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=orelse):
            yield from codes_in(body, values)
            yield from codes_in(orelse, values)
        case ast.BinOp(left=left, right=right):
            yield from (a + b for a in codes_in(left, values) for b in codes_in(right, values))
        case ast.JoinedStr(values=pieces):
            found = [""]
            for piece in pieces:
                inner = piece.value if isinstance(piece, ast.FormattedValue) else piece
                found = [head + tail for head in found for tail in codes_in(inner, values)]
            yield from found
        case _:
            yield from values.get(ast.unparse(expression), ())


def keyword(call: ast.Call, name: str, at: int | None = None) -> ast.expr | None:
    found = next((kw.value for kw in call.keywords if kw.arg == name), None)
    return call.args[at] if found is None and at is not None and len(call.args) > at else found


def sources(*tops: str) -> list[Path]:
    return sorted(path for top in tops for path in (CORE.parent / top).rglob("*.py"))


def said_by(
    name: str, argument: str, at: int | None, tops: tuple[str, ...], **values: tuple[str, ...]
) -> set[str]:
    given = {key.replace("__", "."): value for key, value in values.items()}
    found = set()
    for path in sources(*tops):
        for call in calls(path, name):
            expression = keyword(call, argument, at)
            if expression is not None:
                found |= set(codes_in(expression, given))
    return found


def test_every_verdict_has_its_sentence() -> None:
    said = said_by("Verdict", "code", None, ("core",), holder__wish=("stop", "kill", "cancel"), job__ended=())
    assert {"memory", "asked_kill", "never_fits", "no_device"} <= said  # the search itself works
    made_by_view = {
        "runs",
        "answers",
        "idle",
        "aside",
        "start_failed",
        "unseen",
        "granted",
        "counted",
        "overdue",
        "released",
        "gone",
        "revoked",
        "behind",
        *words.ENDED,
    }
    assert said | made_by_view == set(phrases.VERDICTS)


def test_every_event_has_its_sentence() -> None:
    said = said_by(
        "event", "code", 0, ("core", "daemon"),
        how=words.ENDED, holder__kind=("job", "service"), lease__kind=("lease", "claim"), wish=("open", "closed"),
    )  # fmt: skip
    said |= said_by("Event", "code", None, ("core", "daemon"))
    assert {"job.added", "job.done", "service.asked", "gate.closed", "meter.silent"} <= said
    assert said - set(phrases.EVENTS) == set()


def test_every_refusal_has_its_sentence() -> None:
    said = said_by("refused", "code", 1, ("core",)) | {
        "ambiguous",
        "not_found",
        "cannot_pause",
        "store_silent",
    }
    assert {"already_ended", "unknown_after"} <= said
    assert said - set(phrases.REFUSALS) == set()
    for phrase in phrases.REFUSALS.values():
        assert phrase.texts[-1].endswith((".", "`.")), phrase


def test_every_driver_error_has_its_words() -> None:
    kinds = [errors.DriverFailed]
    for kind in kinds:
        kinds += kind.__subclasses__()
    assert {kind.code for kind in kinds} - set(phrases.NOTES) == set()


BOOKS = {
    "verdicts": phrases.VERDICTS,
    "notes": phrases.NOTES,
    "events": phrases.EVENTS,
    "refusals": phrases.REFUSALS,
}
PHRASES = [(book, code) for book, entries in BOOKS.items() for code in entries]


@pytest.mark.parametrize(("book", "code"), PHRASES, ids=[f"{book}.{code}" for book, code in PHRASES])
def test_a_phrase_can_be_said_without_a_single_fact(book: str, code: str) -> None:
    said = phrases.fill(BOOKS[book][code], {}, None)
    assert said
    if book != "events" and book != "refusals":
        assert not said.endswith("."), "part of a sentence"


def test_an_unknown_code_is_said_as_it_is() -> None:
    assert phrases.sentence("brand_new", {}) == "brand new"
    assert phrases.note("typed by hand_exactly", {}) == "typed by hand_exactly"


@pytest.mark.parametrize("code", phrases.NOTES)
@pytest.mark.parametrize("key", ["note", "reason"])
def test_a_note_is_never_part_of_itself(code: str, key: str) -> None:
    """An event of a failed start has the code of the note among its own facts."""
    facts = {key: code, "why": "cannot run x: no such file", "detail": "d"}
    for event in phrases.EVENTS:
        assert phrases.told(event, "j1", facts)
    assert phrases.note(code, facts)


CAUSES = {
    # name: (cause, whether the code itself is said)
    "a rule": ("asked_stop", False),
    "a limit": ("limit_passed", False),
    "somebody": ("j2", True),
}


@pytest.mark.parametrize(("cause", "said"), CAUSES.values(), ids=CAUSES.keys())
def test_what_a_move_is_for_is_said_in_words(cause: str, said: bool) -> None:
    assert (cause in phrases.told("move.asked", "j1", {"form": "stopped", "cause": cause})) is said


def test_the_reason_that_somebody_gave_is_told_with_what_he_asked() -> None:
    scene = Scene(24)
    jid = scene.queue()
    draft = scene.draft()
    assert wishes.apply(draft, SetWish(target=jid, verb="hold", by="ada", reason="a demo at ten")).accepted
    assert wishes.apply(draft, SetWish(target=jid, verb="release", by="ada")).accepted
    told = [phrases.told(one.code, jid, one.facts) for one in draft.events if one.code == "job.asked"]
    assert ["a demo at ten" in words for words in told] == [True, False]
