"""Request bodies, and what an accepted command answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from headway.api.parts import find
from headway.core.commands import Reply
from headway.core.model import Placement, Snapshot


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def whole_numbers(cls, given: Any) -> Any:
        """JSON knows one kind of number: 4.0 is a whole one. `true` and `"4"` are none. A text is UTF-8."""
        if not isinstance(given, dict):
            return given
        if (place := next(_no_text(given), None)) is not None:
            raise ValueError(f"{place.lstrip('.')}: is no text in UTF-8 without NUL")
        return {
            key: int(one) if isinstance(one, float) and one.is_integer() else one
            for key, one in given.items()
        }


def _no_text(value: Any, place: str = "") -> Iterator[str]:
    """Where a text is that JSON can write and no file, log or terminal can hold: half a character, or NUL.

    A word of a command line that is not UTF-8 arrives like this too.
    """
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            yield place
        if "\0" in value:
            yield place
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _no_text(one, f"{place}.{number}")
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _no_text(key, place or "a name of a field")
            yield from _no_text(one, f"{place}.{key}")


def one_of(*choices: dict[str, Any]) -> ConfigDict:
    """Says in the schema which fields go together: each choice is the fields it needs, with what they may be."""
    return ConfigDict(
        json_schema_extra={
            "oneOf": [{"properties": choice, "required": list(choice)} for choice in choices],
        }
    )


TEXT, NOTHING = {"type": "string"}, {"type": "null"}


class ReasonBody(Body):
    """Why a person asks; shown with the hold."""

    reason: str | None = Field(None, max_length=500)
    anyway: bool = Field(False, description="start: also where it cannot step aside without losing its work")
    at_saved_point: bool = Field(
        False, description="pause: one that cannot park stops at its next saved point"
    )


Word = Annotated[str, Field(min_length=1, max_length=200)]
Label = Annotated[str, Field(max_length=500)]


Seconds = Annotated[float | None, Field(None, gt=0, le=366 * 86400, allow_inf_nan=False)]


class Said(Body):
    """What may be said of any job, new or queued."""

    placement: Placement | None = None
    priority: int | None = Field(None, ge=0, le=100)
    after: list[Word] | None = Field(None, max_length=1000, description="starts when these jobs are over")
    after_ok: list[Word] | None = Field(
        None, max_length=1000, description="starts when these have ended well; else it is held"
    )
    retries: int | None = Field(None, ge=0, le=1000)
    max_runtime_s: Seconds = None
    stall_after_s: Seconds = None
    oom_exit_code: int | None = Field(None, ge=1, le=255)
    goal: str | None = Field(None, max_length=2000)
    tags: list[Word] | None = Field(None, max_length=100)
    labels: dict[Word, Label] | None = Field(None, max_length=100)
    colour: str | None = Field(None, pattern=r"^(#[0-9a-fA-F]{6}|[a-z]{3,20})$")

    def fields(self, snapshot: Snapshot) -> dict[str, Any]:
        """What was said, by the names of a spec; jobs in `after` as ids.

        Raises:
            NotFound: a job in `after` or `after_ok` that is not known.
        """
        said = {name: getattr(self, name) for name in Said.model_fields if name in self.model_fields_set}
        found: dict[str, Any] = {}
        for name, value in said.items():
            if value is None and name not in CLEARED:
                continue
            if name in ("after", "after_ok"):
                value = tuple(dict.fromkeys(find(snapshot, one, "job") for one in value))
            elif name == "tags":
                value = tuple(dict.fromkeys(value))
            found[name] = value
        return found


CLEARED = ("max_runtime_s", "stall_after_s", "oom_exit_code", "goal", "colour")  # null takes the value away


class EditBody(Said):
    """New values; what is left out stays as it is, null takes a value away."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    @model_validator(mode="after")
    def something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("nothing is to be changed: give at least one field")
        return self


class SelectBody(ReasonBody):
    """Who is meant: ids, names, or groups such as tag=eval and state=queued,name=train*; or all of them."""

    model_config = one_of({"targets": {"minItems": 1}}, {"all": {"const": True}})

    targets: list[Word] = Field(default_factory=list, max_length=10_000)
    all: bool = False
    dry_run: bool = Field(False, description="only say whom it means")
    changes: EditBody | None = Field(None, description="edit: the new values")

    @model_validator(mode="after")
    def somebody(self) -> Self:
        if self.all == bool(self.targets):
            raise ValueError("give either targets or all")
        return self


class AddBody(Said):
    """A new job: a recipe by name, or a command."""

    recipe: str | None = None
    argv: list[str] | None = Field(None, min_length=1, max_length=4096)
    name: str | None = None
    gpu: str | int | None = Field(
        None, description="memory on each GPU: bytes, or a size such as 14GiB; 0 for none"
    )
    gpus: int | None = Field(None, ge=0, le=64)
    hold: bool = False
    resumable: bool | None = Field(None, description="it goes on from where it was when it is started again")
    driver: str | None = None
    cwd: str | None = None
    env: dict[str, str] = Field(default_factory=dict)
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="further keys of a [job.NAME] table, as the config has them: saved, health, devices, ...",
    )
    dry_run: bool = Field(False, description="only check it, and say how it would step aside")
    ask_key: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_-]{16,64}$",
        description="your own secret for this ask: the same one again, soon, finds the same job",
    )

    @model_validator(mode="after")
    def recipe_or_command(self) -> Self:
        if (self.recipe is None) == (self.argv is None):
            raise ValueError("give either a recipe or argv")
        if self.recipe is not None:
            only_ad_hoc = ("name", "gpu", "gpus", "resumable", "driver", "cwd", "env", "options")
            if given := [key for key in only_ad_hoc if getattr(self, key) not in (None, {})]:
                raise ValueError(f"a recipe has its own {', '.join(given)}: change it in the config")
        return self


class MoveBody(Body):
    """Where in the queue: `before` and `after` need `other`. Several keep the order in which they are named."""

    model_config = one_of(
        {"where": {"enum": ["before", "after"]}, "other": TEXT},
        {"where": {"enum": ["top", "bottom"]}, "other": NOTHING},
    )

    target: str | Annotated[list[str], Field(min_length=1, max_length=1000)]
    where: Literal["top", "bottom", "before", "after"]
    other: str | None = None

    @model_validator(mode="after")
    def other_where_needed(self) -> Self:
        if (self.other is not None) != (self.where in ("before", "after")):
            raise ValueError("before and after need `other`, top and bottom have none")
        return self


class ApplyBody(Body):
    """How a changed config is taken."""

    drain: bool = Field(False, description="what is gone from it may be in use: it is put aside or goes on")
    dry_run: bool = Field(False, description="only say what would change")


class ModeBody(Body):
    mode: Literal["shadow", "live"]


class WindowBody(Body):
    """A window from now on."""

    kind: Literal["slow_wake", "no_model"]
    for_s: float = Field(gt=0, le=366 * 86400.0, description="how long it is open, in seconds")
    services: list[str] = Field(default_factory=list, max_length=1000, description="empty: all")


class ProdOnlyBody(Body):
    on: bool = Field(strict=True)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The command is saved and in force from revision `rev` on; what it starts may take longer."""

    accepted: bool
    id: str | None
    code: str
    rev: int
    warning: str | None = None  # it was done, and yet a person should know this
    facts: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, reply: Reply, target: str | None = None) -> Accepted:
        return cls(True, reply.holder or target, reply.code, reply.rev, facts=dict(reply.facts))
