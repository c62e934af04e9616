"""The phrasebook of what is told: refused commands, and the lines of the audit. The words may be reworded."""

from __future__ import annotations

from collections.abc import Mapping

from headway.core.notes import NOTES
from headway.core.phrasebook import VERDICTS
from headway.core.wording import GIVEN_UP, Facts, Phrase, did, how_it_ended, nobody, still_held
from headway.core.wording import phrase as _p

# causes whose plainest words, behind "asked to be stopped:", would say the same once more
WORDED = {
    "asked_stop": "it is to stop",  # who asked is told before that: a person, or the time that it may run
    "asked_kill": "it is to end at once",
    "exit": "its process ended",
}


def because(facts: Facts) -> Facts:
    """What a move is for: somebody who needs the room, or the rule that asks for it, in its plainest words."""
    code = str(facts.get("cause"))
    phrase = VERDICTS.get(code) or NOTES.get(code)
    words = WORDED.get(code) or (phrase.texts[-1] if phrase else None)
    return {"because": words, "cause": None} if words else {}


def _form(facts: Facts) -> Facts:
    """A lease that has no device any more was revoked only in our own words: its program gave it back."""
    return {"form": "given back"} if facts.get("form") == "revoked" else {}


def _freed(facts: Facts) -> Facts:
    """By what is known that its memory is free: rows from before that was written down were of measured devices."""
    key = {"none": "bare_s", "declared": "counted_s"}.get(str(facts.get("proof")))
    return {**_form(facts), **({key: facts.get("took_s")} if key else {})}


def _again(facts: Facts) -> Facts:
    """What is left to do with a job that is over."""
    if facts.get("ended") == "cancelled":
        return {"again": "That is final; to run the same again: `headway add`"}
    return {"again": f"To run it again: `headway retry {facts.get('target', 'ID')}`"}


def _typed(facts: Facts) -> Facts:
    return {"typed": str(facts.get("verb", "this")).replace("_", "")}


def _asked(facts: Facts) -> Facts:
    """What we ask of a job that has run for as long as it may."""
    words = {"wind_down": "wind down", "pause": "park", "stop": "stop"}
    return {"asked": words.get(str(facts.get("wish")))}


def _known(facts: Facts) -> Facts:
    n = facts.get("holders")
    return {"known": "1 service, job or lease" if n == 1 else f"{n} services, jobs and leases"} if n else {}


def _how(facts: Facts) -> Facts:
    """How a lease or claim ended, in the plainest words."""
    if facts.get("gave_up"):
        return {"in_words": GIVEN_UP}
    phrase = VERDICTS.get(str(facts.get("because") or facts.get("how")))
    return {"in_words": phrase.texts[-1]} if phrase else {}


def _used(facts: Facts) -> Facts:
    """What a config left out, and who uses it."""
    services, jobs = facts.get("services", ()), facts.get("jobs", ())
    tables = [
        *(f"[service.{name}]" for name in services),
        *(f"[job.{name}]" for name in facts.get("recipes", ())),
    ]
    users = ["its server is there or is asked for"] if services else []
    users += [f"{', '.join(jobs)} {'is' if len(jobs) == 1 else 'are'} not over"] if jobs else []
    return {"what": " and ".join(tables), "users": " and ".join(users)}


# ------------------------------------------------------------- commands that were refused

REFUSALS: Mapping[str, Phrase] = {
    "not_found": _p("{unknown}.", "it is not known.", derive=nobody),
    "ambiguous": _p("several are called {target}: give the id. `headway ps` lists them.", "give the id."),
    "unknown_after": _p("it should wait for {after}, which is not known. `headway ps -a` lists what is."),
    "already_ended": _p("{target} is over ({ended}). {again}.", "it is over. {again}.", derive=_again),
    "order_changed": _p("the line is another one by now. Look at it again: `headway ps`."),
    "config_changed": _p(
        "the config in force is another one by now. Look at it again: `headway config show --running`."
    ),
    "not_ended": _p("it is not over. To end it first: `headway stop` or `headway cancel`."),
    "cancelled": _p("it was cancelled, which is final. To run the same again: `headway add`."),
    "name_taken": _p(
        "{name} is the name of a service, and jobs share their names with them. Give another `--name`.",
        "that is the name of a service. Give another `--name`.",
    ),
    "itself": _p("{target} cannot stand before or after itself.", "it cannot stand before or after itself."),
    "not_for_services": _p(
        "`headway {typed}` is for jobs, and {target} is a service. `headway service sleep {target}` puts it aside, "
        "`headway hold {target}` does until `headway release {target}`.",
        "`headway {typed}` is for jobs. `headway service sleep` puts a service aside.",
        derive=_typed,
    ),
    "not_for_jobs": _p(
        "`headway service {typed}` is for services, and {target} is a job. `headway start` and `headway pause` are for "
        "jobs.",
        "`headway service {typed}` is for services.",
        derive=_typed,
    ),
    "mode_shadow": _p("the mode is shadow, so nobody is moved. To change that: `headway mode live`."),
    "retired": _p("{target} is not in the config any more.", "it is not in the config any more."),
    "not_ours": _p(
        "nothing answers at {upstream}, and the config has no `start` command for {target}. Start it the way you "
        "always do.",
        "nothing answers there, and the config has no command to start it.",
    ),
    "no_model": _p(
        "the window {window} keeps it aside. To end that: `headway window stop {window}`.",
        "a window keeps it aside. `headway window ls` lists them.",
    ),
    "cannot_step_aside": _p(
        "{target} cannot give its memory back: its driver cannot put it to sleep, and Headway did not start it.",
        "it cannot give its memory back.",
    ),
    "cannot_pause": _p(
        "it has no park command, so it cannot pause. `headway pause --at-saved-point {target}` stops it at its next "
        "saved point, `headway stop {target}` now.",
        "it has no park command, so it cannot pause. `headway stop` frees its memory too.",
    ),
    "no_saved_point": _p(
        "nothing says where it has saved, so it has no saved point to pause at. `headway winddown {target}` lets it "
        "come to its end, `headway stop {target}` ends it now.",
        "it has no saved point to pause at. `headway stop` ends it now.",
    ),
    "not_editable": _p(
        "{fields} cannot be changed of a job. Cancel it, and add another one.",
        "that cannot be changed of a job.",
    ),
    "cycle": _p(
        "these would wait for each other: {ring}. Leave one of them out of `--after`.",
        "they would wait for each other. Leave one of them out of `--after`.",
    ),
    "still_there": _p(
        "{target} is over, but its memory is still being measured. Try again in a moment.",
        "its memory is still being measured. Try again in a moment.",
    ),
    "not_a_job": _p("{target} is not a job. `headway ps` lists them.", "that is not a job."),
    "not_queued": _p(
        "{target} does not stand in that line: it is {state}. `headway ps` shows the order.",
        "{target} does not stand in that line. `headway ps` shows the order.",
        "it does not stand in line.",
    ),
    "not_a_lease": _p("{target} is no lease. `headway lease ls` lists what is.", "that is no lease."),
    "lease_over": _p(
        "{target} is over ({ended}). Ask for a new one.",
        "{target} is over. Ask for a new one.",
        "it is over.",
    ),
    "lease_stays": _p(
        "{target} is not preemptible: it ends with its program. To end that: `kill {pid}`.",
        "{target} is not preemptible: it ends with its program.",
        "it is not preemptible: it ends with its program.",
    ),
    "not_for_leases": _p(
        "`headway {typed}` is for jobs and services, and {target} is a lease: it is given back by its program, or "
        "ended with `headway stop {target}`.",
        "a lease is given back by its program, or ended with `headway stop`.",
        derive=_typed,
    ),
    "needs_ttl": _p("a lease without a process needs a time to live, so that it ends when nobody renews it."),
    "needs_process": _p("a claim needs the process it counts: give its pid, or a pattern that finds it."),
    "already_counted": _p("its memory is counted already, by {other}.", "its memory is counted already."),
    "unknown_device": _p(
        "no device is called {devices}. `headway status` lists them.", "`headway status` lists the devices."
    ),
    "queue_full": _p(
        "{waiting} jobs wait already, and no more are taken. `headway cancel` takes some away.",
        "too many jobs wait already. `headway cancel` takes some away.",
    ),
    "line_full": _p(
        "{waiting} leases wait already. Try again later.", "too many leases wait already. Try again later."
    ),
    "in_use": _p(
        "the config does not have {what} any more, and {users}. Nothing was changed. `headway config apply --drain` "
        "lets what runs come to its end; or put it back into the config.",
        derive=_used,
    ),
    "unknown_window": _p("no window is called {target}. `headway window ls` lists them.", "no such window."),
    "window_not_open": _p(
        "the window {target} is not open. `headway window ls` says when it is.", "it is not open."
    ),
    "too_many_windows": _p("there are {limit} windows already. `headway window stop` ends one."),
    "not_a_service": _p("{target} is not a service. `headway service ls` lists them.", "that is no service."),
    "store_silent": _p(
        "{trouble} Nothing was changed.",
        "the database does not answer, so nothing was changed. Try again, or see `headway status`.",
    ),
}

# ------------------------------------------------------------- the audit

EVENTS: Mapping[str, Phrase] = {
    "job.added": _p("queued by {by}"),
    "job.asked": _p("{by} asked: {verb} ({reason})", "{by} asked: {verb}"),
    "job.edited": _p("{by} changed {fields}", "changed by {by}", "changed"),
    "job.cleared": _p("{name} forgotten, asked by {by}", "forgotten"),
    "job.fronted": _p("waited {waited_s}, so it goes to the front of the line", "goes to the front of the line"),
    "job.moved": _p("moved {where} {other} by {by}", "moved to the {where} by {by}", "moved in the queue"),
    "job.saved": _p("saved: {point}", "saved its work"),
    "job.done": _p("done, ran for {ran_s}", "done"),
    "job.failed": _p("failed: {reason}", "failed: {exit}, ran for {ran_s}", "failed", derive=how_it_ended),
    "job.cancelled": _p("cancelled by {by}", "cancelled"),
    "job.lost": _p("its process is gone, and how it ended is not known"),
    "job.retry": _p("{exit}; {attempts_left} more attempts", "{exit}; tried once more", derive=how_it_ended),
    "job.held": _p("held: {reason}", "held after {failures} failed starts", "held"),
    "job.over_time": _p("has run for its max_runtime of {max_runtime_s}: asked to {asked}",
                        "has run for as long as it may", derive=_asked),
    "job.out_of_memory": _p("ran out of memory; tried once more with a device alone: {line}",
                            "ran out of memory; tried once more with a device alone"),
    "job.lost_work": _p("lost {lost_s} of work since its last saved point: {because}",
                        "lost {lost_s} of work since its last saved point, for {cause}",
                        "lost work since its last saved point", derive=because),
    "job.stalled": _p("stalled: no progress, no output and no processor time for {silent_s}", "stalled"),
    "job.works_again": _p("works again"),
    "job.unhealthy": _p("its health command failed {failures} times in a row", "its health command fails"),
    "job.healthy": _p("its health command succeeds again"),
    "service.asked": _p("{by} asked: {verb} ({reason})", "{by} asked: {verb}"),
    "lease.added": _p("asked for by {by}, pid {pid}", "asked for by {by}", "asked for"),
    "lease.asked": _p("{by} asked: {verb}"),
    "lease.granted": _p("granted after {waited_s}", "granted"),
    "lease.would": _p("started without a grant, as the mode is shadow; live it would have waited {waited_s}",
                      "started without a grant, as the mode is shadow"),
    "lease.kept": _p("did not give its device back in time, and keeps it"),
    "lease.ended": _p("over after {held_s}: {in_words}", "never granted: {in_words}", "over", derive=_how),
    "lease.left": _p("over, and its processes (pid {pid}) still hold {held}; that is counted as not ours",
                     "over, and its processes still hold {held}; that is counted as not ours",
                     "over, and its processes still hold memory; that is counted as not ours"),
    "claim.added": _p("counted for {by}, pid {pid}", "counted for {by}", "counted"),
    "claim.ended": _p("no longer counted after {held_s}: {in_words}", "no longer counted", derive=_how),
    "service.observed": _p("seen {form}, was {before}", "seen {form}"),
    "service.died": _p("its server {exit}", "its server is gone", derive=how_it_ended),
    "service.failed": _p("cannot start: {reason}", "cannot start"),
    "holder.overrun": _p("uses {seen_bytes} while {form}, {declared_bytes} were declared"),
    "move.asked": _p(
        "asked to be {form}: {because}", "asked to be {form} for {cause}", "asked to be {form}",
        derive=lambda f: {**because(f), **_form(f)},
    ),
    "move.no_memory": _p(
        "{form} and not {instead}, which would take {need_bytes} of main memory: {free_bytes} are free, and "
        "{floor_bytes} have to stay free",
        "{form} and not {instead}, which may take main memory: {free_bytes} are free, and {floor_bytes} have to "
        "stay free",
        "{form}, as too little main memory is free",
    ),
    "move.no_disk": _p(
        "{form} and not {instead}, which would take {need_bytes} of the disk of {directory}: {free_bytes} are free, "
        "and {floor_bytes} have to stay free",
        "{form}, as too little of its disk is free",
    ),
    "move.answered": _p("says it {did} after {took_s}", "says it {did}", derive=lambda f: did({"to": f.get("form")})),
    "move.done": _p("{form} after {took_s}", "{form}", derive=_form),
    "move.failed": _p("could not get {form}: {reason}", "could not get {form}", "could not move"),
    "move.refused": _p("not {form} yet: {reason}", "not {form} yet", "not yet"),
    "release.verified": _p(
        "{form} after {bare_s}",
        "{form}: its memory counts as free {counted_s} after it was asked: nothing measures that device",
        "{form}: its memory is free, measured {took_s} after it was asked",
        "its memory is free",
        derive=_freed,
    ),
    "memory.not_released": _p(
        "says it {did}; {shows} held by pid {pid}", "says it {did}; {shows} held by it", "kept its memory",
        derive=lambda f: still_held({**f, "to": f.get("form")}),
    ),
    "run.exit": _p("its process {exit}", "its process ended", derive=how_it_ended),
    "gap.taken": VERDICTS["gap_taken"],
    "gate.open": _p("gate opens"),
    "gate.closed": _p("gate closes"),
    "gate.stuck": _p("gate {gate} neither answers nor can be ended", "a gate neither answers nor can be ended"),
    "device.seen": _p("{device} is read", "a device is read"),
    "device.trouble": _p("{device} cannot be read: {trouble}", "a device cannot be read"),
    "meter.silent": _p("the meter does not answer: {trouble}", "the meter does not answer"),
    "meter.speaks": _p("the meter answers again"),
    "store.silent": _p("{trouble} Until then nothing new is started",
                       "the database does not answer; nothing new is started"),
    "store.speaks": _p("the database answers again"),
    "daemon.started": _p("daemon started; {known} from before", "daemon started", derive=_known),
    "run.orphaned": _p("nothing in the database knows the run {run}: it is ended within {grace_s}: {argv}",
                       "a run that nothing in the database knows is ended"),
    "intent.dropped": _p("a move to {to} was never begun", "a move was never begun"),
    "commands.undone": _p("could not be saved, so {holders} are as before", "could not be saved, so all is as before"),
    "service.retired": _p("is not in the config any more, so it is put aside"),
    "service.forgotten": _p("is off its devices and not in the config: forgotten"),
    "config.applied": _p("the config was applied by {by}: {changes}", "the config was applied by {by}"),
    "config.refused": _p("the config was not applied: {problems}", "the config was not applied"),
    "window.added": _p(
        "window {window} ({kind}) for {services}, for {for_s}, by {by}",
        "window {window} ({kind}) for {for_s}, by {by}",
        "a window begins",
    ),
    "window.began": _p(
        "window {window} ({kind}) begins for {services}", "window {window} ({kind}) begins", "a window begins"
    ),
    "window.ended": _p("window {window} ({kind}) ends", "a window ends"),
    "window.stopped": _p("window {window} ({kind}) ended before its time by {by}", "a window was ended"),
    "memory.low": _p(
        "{free_bytes} of main memory are free, {floor_bytes} have to stay free: no job and no lease starts",
        "too little main memory is free: no job and no lease starts",
    ),
    "memory.enough": _p("enough main memory is free again"),
    "disk.low": _p(
        "{free_bytes} of the disk with Headway's files are free, {floor_bytes} have to stay free: no job and no lease "
        "starts",
        "too little of the disk with Headway's files is free: no job and no lease starts",
    ),
    "disk.enough": _p("enough of the disk is free again"),
    "queue.held": _p("the whole queue is held by {by}: no job starts", "the whole queue is held: no job starts"),
    "queue.released": _p("the queue is released by {by}", "the queue is released"),
    "daemon.crash_loop": _p(
        "the daemon ended {crashes} times in {within_s} without being told to, so the queue is held: no job starts "
        "until `headway queue release`. The last lines of its log say more",
        "the daemon ends again and again, so the queue is held until `headway queue release`",
    ),
    "prod_only": _p("prod only is {word}, set by {by}", "prod only is {word}"),
    "mode": _p("mode is {mode}, set by {by}", "mode is {mode}"),
}  # fmt: skip
