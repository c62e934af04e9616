"""Request bodies, and what an accepted command answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from headway.core.commands import Reply
from headway.core.model import Placement


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def whole_numbers(cls, given: Any) -> Any:
        """JSON knows one kind of number: 4.0 is a whole one. `true` and `"4"` are none."""
        if not isinstance(given, dict):
            return given
        return {
            key: int(one) if isinstance(one, float) and one.is_integer() else one
            for key, one in given.items()
        }


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


class AddBody(Body):
    """A new job: a recipe by name, or a command."""

    recipe: str | None = None
    argv: list[str] | None = Field(None, min_length=1, max_length=4096)
    name: str | None = None
    gpu: str | int | None = Field(
        None, description="memory on each GPU: bytes, or a size such as 14GiB; 0 for none"
    )
    gpus: int | None = Field(None, ge=0, le=64)
    placement: Placement | None = None
    priority: int | None = Field(None, ge=0, le=100)
    after: list[str] = Field(default_factory=list, max_length=1000)
    hold: bool = False
    driver: str | None = None
    cwd: str | None = None
    env: dict[str, str] = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict, description="settings of the driver")

    @model_validator(mode="after")
    def recipe_or_command(self) -> Self:
        if (self.recipe is None) == (self.argv is None):
            raise ValueError("give either a recipe or argv")
        if self.recipe is not None:
            only_ad_hoc = ("name", "gpu", "gpus", "driver", "cwd", "env", "options")
            if given := [key for key in only_ad_hoc if getattr(self, key) not in (None, {})]:
                raise ValueError(f"a recipe has its own {', '.join(given)}: change it in the config")
        return self


class MoveBody(Body):
    """Where in the queue: `before` and `after` need `other`."""

    model_config = one_of(
        {"where": {"enum": ["before", "after"]}, "other": TEXT},
        {"where": {"enum": ["top", "bottom"]}, "other": NOTHING},
    )

    target: str
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
