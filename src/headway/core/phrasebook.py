"""The phrasebook: the wordings of every code. Codes are stable; these words may be reworded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headway.core.words import DID, duration, size

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Phrase:
    """Wordings from the richest to one that needs no fact: the first whose facts are all known is taken.

    `help` is the command to type next; `{id}` in it is the holder asked about. `derive` adds facts to say.
    """

    texts: tuple[str, ...]
    help: str | None = None
    derive: Callable[[Facts], Facts] | None = None


def _p(*texts: str, help: str | None = None, derive: Callable[[Facts], Facts] | None = None) -> Phrase:
    return Phrase(texts, help, derive)


def _count(key: str, one: str, many: str) -> Callable[[Facts], Facts]:
    """Adds `KEY_words`: "1 request", "3 requests"; nothing for none."""

    def derive(facts: Facts) -> Facts:
        n = facts.get(key)
        return {} if not n else {f"{key}_words": f"{n} {one if n == 1 else many}"}

    return derive


_requests_active = _count("active", "request", "requests")
_requests_pinning = _count("pinning", "request", "requests")


def _still_held(facts: Facts) -> Facts:
    """ "says it stopped; sim0 still shows 14.2 GiB", one clause per device."""
    held = facts.get("held") or {}
    return {
        "did": DID.get(str(facts.get("to")), "stepped aside"),
        "shows": " and ".join(f"{name} still shows {size(bytes_)}" for name, bytes_ in held.items()),
        "expected": size(facts.get("expected_bytes") or 0),
    }


def _did(facts: Facts) -> Facts:
    return {"did": DID.get(str(facts.get("to")), "moved")}


def _waited_for_held(facts: Facts) -> Facts:
    return {"after_held": facts.get("after")} if facts.get("held") else {}


def _gate(facts: Facts) -> Facts:
    return {**_requests_pinning(facts), "gate": None if facts.get("closed", True) else "open"}


def _held(facts: Facts) -> Facts:
    since_s = facts.get("since_s")
    return {} if since_s is None else {"ago": "just now" if since_s < 1 else f"{duration(since_s)} ago"}


def _many(facts: Facts) -> Facts:
    return {"many": f"{facts['count']} devices"} if (facts.get("count") or 0) > 1 else {}


def _cause(facts: Facts) -> Facts:
    """What a move is for: somebody who needs the room, or the rule that asks for it, in its plainest words."""
    code = str(facts.get("cause"))
    phrase = VERDICTS.get(code) or NOTES.get(code)
    return {"because": phrase.texts[-1], "cause": None} if phrase else {}


def _again(facts: Facts) -> Facts:
    """What is left to do with a job that is over."""
    if facts.get("ended") == "cancelled":
        return {"again": "That is final; to run the same again: `headway add`"}
    return {"again": f"To run it again: `headway retry {facts.get('target', 'ID')}`"}


def _typed(facts: Facts) -> Facts:
    return {"typed": str(facts.get("verb", "this")).replace("_", "")}


def _known(facts: Facts) -> Facts:
    n = facts.get("holders")
    return {"known": "1 service or job" if n == 1 else f"{n} services and jobs"} if n else {}


def _exit(facts: Facts) -> Facts:
    code = facts.get("exit_code")
    if not isinstance(code, int):
        return {}
    return {"exit": f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"}


# ------------------------------------------------------------- why something is, or is not, running

VERDICTS: Mapping[str, Phrase] = {
    # rules: who may stay
    "asked_stop": _p("{by} asked it to stop", "was asked to stop"),
    "asked_kill": _p("{by} asked to kill it", "is being killed"),
    "asked_cancel": _p("{by} cancelled it", "was cancelled"),
    "asked_pause": _p("{by} asked it to pause", "was asked to pause", help="headway resume {id}"),
    "asked_wind_down": _p("reached its saved point and stops there, as {by} asked", "stops at its saved point"),
    "left_over": _p("its leader ended, but something of its tree still lives and is being ended"),
    "no_way_back": _p(
        "failed {failures} times to come back from where it is, so it is stopped and started anew",
        "could not come back from where it is, so it is stopped and started anew",
    ),
    "gap_over": _p("steps aside: {service} is awake on its device", "steps aside for a model that is awake"),
    "idle_ttl": _p("nobody used it for {idle_s}, so it gives its memory back", "nobody used it for long enough"),
    # rules: who may come
    "shadow": _p("the mode is shadow: Headway only watches", help="headway mode live"),
    "held": _p(
        "held by {by} {ago}, until it is released ({note})",
        "held by {by}, until it is released ({note})",
        "held until it is released ({note})",
        "held by {by} {ago}, until it is released",
        "held by {by}, until it is released",
        "held until it is released",
        help="headway release {id}", derive=_held,
    ),
    "after": _p(
        "waits for the end of {after_held}, which is held", "waits for the end of {after}", "waits for another job",
        help="headway why {after}", derive=_waited_for_held,
    ),
    "after_gone": _p(
        "waits for {after}, which never ran and never will", "waits for a job that never ran",
        help="headway cancel {id}",
    ),
    "after_failed": _p(
        "starts only after a good end of {after}, which is {ended}", "the job it waits for did not end well",
        help="headway retry {after}",
    ),
    "backoff": _p(
        "{note}; tries again in {in_s}", "could not start; tries again in {in_s}", "could not start",
        help="headway log {id}",
    ),
    "not_ours": _p(
        "nothing answers at {upstream}, and the config has no command to start it",
        "nothing answers there, and the config has no command to start it",
        help="headway check",
    ),
    "slots": _p("{active} of {limit} job places are taken", "all job places are taken", help="headway ps"),
    "store_silent": _p("the database does not answer, so nothing new is started", help="headway status"),
    "demand_unknown": _p(
        "the gate has not said yet who waits for {services}; starts in {in_s} at the latest",
        "the gate has not said yet who waits",
    ),
    # the pass
    "keeps": _p("keeps its place"),
    "goes": _p("takes the place of {victims}", "has its place, and goes there as soon as it is safe"),
    "made_room": _p("made room for {for}", "made room", help="headway why {for}"),
    "reserved": _p("the room is kept for {for}, which has waited longer", "the room is kept for another"),
    "never_fits": _p(
        "can never start here: wants {missing}, and there is only {devices}",
        "can never start here: needs {need_bytes} on each of {many}, more than there is even when empty ({devices})",
        "can never start here: needs {need_bytes}, more than any device has even when empty ({devices})",
        "can never start here: needs {many}, and there are fewer ({devices})",
        "can never fit on the devices there are",
        help="headway status",
        derive=_many,
    ),
    "crowded_out": _p(
        "needs {need_bytes} on {device}; pid {pids}, which is not ours, has {outside_bytes}",
        "needs {need_bytes} on {device}; programs that are not ours hold {outside_bytes}",
        "programs that are not ours hold the memory it needs",
        help="headway status",
    ),
    "first_reading": _p(
        "no device can be read: {trouble}",
        "wants {many}, and so far there is only {devices}",
        "the devices have not been read since the start",
        derive=_many,
    ),
    "no_device": _p("no device can be read: {trouble}", "no device has been seen yet", help="headway check"),
    # what is free
    "memory": _p(
        "needs {need_bytes} on {device}; {usable_bytes} of {total_bytes} would be left, pid {pids} has {outside_bytes}",
        "needs {need_bytes} on {device}; {usable_bytes} of {total_bytes} would be left, {holder} keeps the most",
        "needs {need_bytes} on {device}; {usable_bytes} of {total_bytes} would be left",
        "does not fit",
        help="headway why {holder}",
    ),
    "memory_now": _p(
        "needs {need_bytes} on {device}; {free_bytes} are free as measured, pid {pids} has {outside_bytes}",
        "needs {need_bytes} on {device}; {free_bytes} are free as measured, {holder} still holds {holder_bytes}",
        "needs {need_bytes} on {device}; {free_bytes} are free as measured, {foreign_bytes} used by others",
        "needs {need_bytes} on {device}; {usable_bytes} are left",
        "does not fit yet",
        help="headway status",
    ),
    "unmeasured": _p("{device} was not read yet, so nothing new starts on it", "its device was not read yet"),
    "meter_silent": _p(
        "the meter of {device} does not answer ({trouble}), so nothing new starts on it",
        "the meter does not answer, so nothing new starts",
        help="headway status",
    ),
    "device_trouble": _p(
        "{device} could not be read ({trouble}), so nothing new starts on it", "its device could not be read",
        help="headway status",
    ),
    "reading_stale": _p("{device} was last read {age_s} ago, so nothing new starts on it", "the last reading is old"),
    "reading_too_old": _p("{device} is being read again after the last change on it", "its device is read again"),
    "beside_model": _p(
        "{service} has its device; starts when {service} steps aside",
        "a model has its device; starts when that steps aside",
    ),
    "needs_alone": _p(
        "how much {unknown} needs is not known, so it gets a device alone; {holder} is there",
        "how much it needs is not known, so it gets a device alone",
        help="headway why {holder}",
    ),
    # who may push whom
    "too_weak": _p("waits for {holder} to leave by itself", "waits for others to leave by themselves"),
    "gate_stuck": _p(
        "a gate of {service} neither answers nor can be ended, so {service} stays; tries again in {in_s}",
        "a gate neither answers nor can be ended",
        help="headway events",
    ),
    "cannot_step_aside": _p(
        "{holder} cannot give its memory back from where it is", "who is there cannot give its memory back",
        help="headway stop {holder}",
    ),
    "beside_only": _p(
        "its placement is beside {service}, never in its place", "its placement is beside a model, never in its place"
    ),
    "model_busy": _p(
        "{service} is answering {active_words}; starts when it has been quiet for {needed_s}",
        "{service} is answering requests; starts when it has been quiet for {needed_s}",
        "{service} is answering {active_words}; its turn is in {in_s} at the latest",
        "{service} is answering requests; its turn is in {in_s} at the latest",
        "{service} is answering requests",
        "a model is answering requests",
        derive=_requests_active,
    ),
    "load_unserved": _p(
        "{service} was just loaded and answers at least one request first", "a model was just loaded for a request"
    ),
    "residency": _p(
        "{holder} came a moment ago and keeps its place for {in_s} more", "who is there came a moment ago"
    ),
    "would_lose_work": _p(
        "{holder} would lose work since its last saved point", "who is there would lose work",
        help="headway why {holder}",
    ),
    "just_pushed": _p("was pushed aside and lets {holder} be for {in_s} more", "was pushed aside a moment ago"),
    "gap_too_short": _p(
        "{service} has been quiet for {quiet_s}; starts when it has been quiet for {needed_s}",
        "the model has not been quiet for long enough",
    ),
    # the next step
    "draining": _p(
        "its gate is still {gate}", "finishes {pinning_words} in flight", "finishes what is in flight", derive=_gate,
    ),
    "no_way": _p("its driver knows no way from {form} to {to}", "its driver knows no way there"),
    "device_busy": _p(
        "waits for {moving}, which is moving on {devices}", "waits for a move on {devices}", "waits for another move"
    ),
    "moving": _p("under way for {since_s}", "under way"),
    "verifying": _p("says it {did}; its memory is being measured", derive=_did),
    "not_released": _p(
        "says it {did}; {shows} held by pid {pid}, {expected} expected",
        "says it {did}; {shows} held by it, {expected} expected",
        "says it {did}, but its memory is still in use",
        help="headway stop {id}",
        derive=_still_held,
    ),
    # made by view itself, where the pass has nothing to say
    "behind": _p("number {position} in line; those before it are looked at first", "stands in line"),
    "runs": _p("on {devices} for {in_state_s}", "for {in_state_s}"),
    "answers": _p("answering {active_words}", derive=_requests_active),
    "idle": _p("quiet for {quiet_s}; nobody who waits needs its memory", "nobody who waits needs its memory"),
    "aside": _p("nobody asks for it", help="send it a request"),
    "start_failed": _p("{note}; tries again when asked", "could not start", help="headway service show {id}"),
    "unseen": _p("not observed yet"),
    "granted": _p("for {in_state_s}"),
    "done": _p("ended well {ended_s} ago, ran for {ran_s}", "ended well"),
    "failed": _p("{note}", "{exit} {ended_s} ago, ran for {ran_s}", "ended badly", help="headway log {id}",
                 derive=_exit),
    "cancelled": _p("cancelled {ended_s} ago", "cancelled"),
    "lost": _p(
        "its process was gone {ended_s} ago, how it ended is not known", "its process was gone",
        help="headway retry {id}",
    ),
}  # fmt: skip

# ------------------------------------------------------------- what went wrong (notes on holders)

NOTES: Mapping[str, Phrase] = {
    "driver_failed": _p("its driver failed: {detail}", "its driver failed"),
    "failed": _p("its driver failed"),
    "server_silent": _p("the server did not answer in time"),
    "server_exited": _p(
        "the server {exit} while it was starting", "the server ended while it was starting", derive=_exit
    ),
    "port_taken": _p("port {port} is taken by {owner}", "its port is taken by another program"),
    "hook_failed": _p("its {hook} command {exit}", "a park or resume command failed", derive=_exit),
    "cannot_start": _p("{why}", "the command could not be executed"),
    "limit_passed": _p("it took longer than {limit_s}", "it took longer than its limit"),
    "memory_not_released": _p("its memory was not released"),
    "exit": _p("its last run {exit}", "its last run ended badly", derive=_exit),
    "lost": _p("its process was gone, and how it ended is not known"),
    "after_failed": _p("the job it follows did not end well"),
    "after_gone": _p("the job it follows never ran"),
}

# ------------------------------------------------------------- commands that were refused

REFUSALS: Mapping[str, Phrase] = {
    "not_found": _p("{target} is not known. `headway ps -a` lists what is.", "it is not known."),
    "ambiguous": _p("several are called {target}: give the id. `headway ps` lists them.", "give the id."),
    "unknown_after": _p("it should wait for {after}, which is not known. `headway ps -a` lists what is."),
    "already_ended": _p("{target} is over ({ended}). {again}.", "it is over. {again}.", derive=_again),
    "not_ended": _p("it is not over. To end it first: `headway stop` or `headway cancel`."),
    "cancelled": _p("it was cancelled, which is final. To run the same again: `headway add`."),
    "name_taken": _p(
        "{name} is the name of a service, and jobs share their names with them. Give another `--name`.",
        "that is the name of a service. Give another `--name`.",
    ),
    "itself": _p("{target} cannot stand before or after itself.", "it cannot stand before or after itself."),
    "not_for_services": _p(
        "`headway {typed}` is for jobs, and {target} is a service. `headway hold {target}` puts it aside, "
        "`headway release {target}` lets it go on.",
        "`headway {typed}` is for jobs. `headway hold` puts a service aside, `headway release` lets it go on.",
        derive=_typed,
    ),
    "cannot_pause": _p("it has no park command, so it cannot pause. `headway stop` frees its memory too."),
    "not_a_job": _p("{target} is not a job. `headway ps` lists them.", "that is not a job."),
    "not_queued": _p(
        "{target} does not stand in that line: it is {state}. `headway ps` shows the order.",
        "{target} does not stand in that line. `headway ps` shows the order.",
        "it does not stand in line.",
    ),
    "store_silent": _p(
        "the database does not answer, so nothing was changed. Try again, or see `headway status`."
    ),
}

# ------------------------------------------------------------- the audit

EVENTS: Mapping[str, Phrase] = {
    "job.added": _p("queued by {by}"),
    "job.asked": _p("{by} asked: {verb}"),
    "job.moved": _p("moved {where} {other} by {by}", "moved to the {where} by {by}", "moved in the queue"),
    "job.saved": _p("saved: {point}", "saved its work"),
    "job.done": _p("done, ran for {ran_s}", "done"),
    "job.failed": _p("failed: {reason}", "failed: {exit}, ran for {ran_s}", "failed", derive=_exit),
    "job.cancelled": _p("cancelled by {by}", "cancelled"),
    "job.lost": _p("its process is gone, and how it ended is not known"),
    "job.retry": _p("{exit}; {attempts_left} more attempts", "{exit}; tried once more", derive=_exit),
    "job.held": _p("held after {failures} failed starts", "held"),
    "service.asked": _p("{by} asked: {verb}"),
    "service.observed": _p("seen {form}, was {before}", "seen {form}"),
    "service.died": _p("its server {exit}", "its server is gone", derive=_exit),
    "service.failed": _p("cannot start: {reason}", "cannot start"),
    "holder.overrun": _p("uses {seen_bytes} while {form}, {declared_bytes} were declared"),
    "move.asked": _p(
        "asked to be {form}: {because}", "asked to be {form} for {cause}", "asked to be {form}", derive=_cause
    ),
    "move.answered": _p("says it {did} after {took_s}", "says it {did}", derive=lambda f: _did({"to": f.get("form")})),
    "move.done": _p("{form} after {took_s}", "{form}"),
    "move.failed": _p("could not get {form}: {reason}", "could not get {form}", "could not move"),
    "move.refused": _p("not {form} yet: {reason}", "not {form} yet", "not yet"),
    "release.verified": _p("{form}: its memory is free, measured {took_s} after it was asked", "its memory is free"),
    "memory.not_released": _p(
        "says it {did}; {shows} held by pid {pid}", "says it {did}; {shows} held by it", "kept its memory",
        derive=lambda f: _still_held({**f, "to": f.get("form")}),
    ),
    "run.exit": _p("its process {exit}", "its process ended", derive=_exit),
    "gate.open": _p("gate opens"),
    "gate.closed": _p("gate closes"),
    "gate.stuck": _p("gate {gate} neither answers nor can be ended", "a gate neither answers nor can be ended"),
    "device.seen": _p("{device} is read", "a device is read"),
    "device.trouble": _p("{device} cannot be read: {trouble}", "a device cannot be read"),
    "meter.silent": _p("the meter does not answer: {trouble}", "the meter does not answer"),
    "meter.speaks": _p("the meter answers again"),
    "store.silent": _p("the database does not answer; nothing new is started"),
    "store.speaks": _p("the database answers again"),
    "daemon.started": _p("daemon started; {known} from before", "daemon started", derive=_known),
    "intent.dropped": _p("a move to {to} was never begun", "a move was never begun"),
    "commands.undone": _p("could not be saved, so {holders} are as before", "could not be saved, so all is as before"),
    "mode": _p("mode is {mode}, set by {by}", "mode is {mode}"),
}  # fmt: skip
