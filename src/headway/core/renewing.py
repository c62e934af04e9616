"""What a holder takes over from a changed config, and when: some of it at once, the rest at its next start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headway.core.spec import Form, JobSpec, ServiceSpec, Spec

# Of a service whose server runs: what its process was not started with, so that it may change under it.
AT_ONCE = (
    "models", "gate_port", "max_active", "queue_max", "max_wait_s", "wake_limit_s", "on_cancel", "idle_ttl_s",
    "keep_awake", "key_file", "min_residency_s", "stop_grace_s", "wait_price", "max_mean_wait_s", "max_waiting_share",
)  # fmt: skip
# Whom an entry waits for was settled when it was queued.
KEPT = ("after", "after_ok")


def renewed(holder: Any) -> Any:
    """The same one with what the config says now; to be called of one of which nothing runs."""
    coming = getattr(holder, "coming", None)
    if coming is None:
        return holder
    changes: dict[str, Any] = {
        "spec": coming,
        "forms": with_learned(coming.forms, holder.forms),
        "coming": None,
    }
    changes["form"] = coming.forms[-1].name
    if isinstance(coming, JobSpec):
        changes["lane"] = "cpu" if coming.count == 0 else "gpu"
    return replace(holder, **changes)


def with_learned(forms: tuple[Form, ...], before: tuple[Form, ...]) -> tuple[Form, ...]:
    """The forms of a new spec with what was learned of those of the same name."""
    known = {form.name: form for form in before}
    return tuple(
        replace(
            form,
            learned_bytes=old.learned_bytes,
            enter_s=old.enter_s,
            enters_s=old.enters_s,
            leave_s=old.leave_s,
        )
        if (old := known.get(form.name))
        else form
        for form in forms
    )


def at_once(now: ServiceSpec, coming: ServiceSpec) -> ServiceSpec:
    """The spec of a server that runs: names and limits of the new one, and its sizes of the forms there are."""
    sizes = {form.name: form for form in coming.forms}
    forms = tuple(
        replace(form, declared_bytes=said.declared_bytes, host_bytes=said.host_bytes)
        if (said := sizes.get(form.name))
        else form
        for form in now.forms
    )
    return replace(now, forms=forms, **{name: getattr(coming, name) for name in AT_ONCE})


def merged(own: JobSpec, before: JobSpec, now: JobSpec) -> JobSpec:
    """A job's own spec with what its recipe changed; what somebody asked for this one alone stays."""
    changes = {
        name: new
        for name, new in fields_of(now).items()
        if name not in KEPT and getattr(before, name) != new and getattr(own, name) == getattr(before, name)
    }
    if "forms" in changes or "moves" in changes or "driver" in changes:  # one ladder, never half of each
        changes |= {
            name: getattr(now, name) for name in ("driver", "forms", "moves", "park", "resume", "options")
        }
    return replace(own, **changes) if changes else own


def fields_of(spec: Spec) -> Mapping[str, Any]:
    return {name: getattr(spec, name) for name in type(spec).__dataclass_fields__}
