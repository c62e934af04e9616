"""The phrasebook: why something is so. Codes are stable; these words may be reworded."""

from __future__ import annotations

from collections.abc import Mapping

from headway.core.wording import (
    Phrase,
    could_come_back,
    did,
    ended,
    gate,
    given_up,
    held,
    how_it_ended,
    known_to_come,
    many,
    requests_active,
    share_done,
    still_held,
    waited_for_held,
    who_runs,
)
from headway.core.wording import phrase as _p

VERDICTS: Mapping[str, Phrase] = {
    # rules: who may stay
    "asked_stop": _p("{by} asked it to stop", "was asked to stop"),
    "asked_kill": _p("{by} asked to kill it", "is being killed"),
    "asked_cancel": _p("{by} cancelled it", "was cancelled"),
    "asked_pause": _p("{by} asked it to pause", "was asked to pause", help="headway resume {id}"),
    "asked_wind_down": _p("reached its saved point and stops there, as {by} asked", "stops at its saved point"),
    "asked_sleep": _p("{by} sent it to sleep", "was sent to sleep", help="headway service wake {id}"),
    "retired": _p("is not in the config any more, so it is put aside and forgotten"),
    "left_over": _p("its leader ended, but something of its tree still lives and is being ended"),
    "no_way_back": _p(
        "failed {failures} times to come back from where it is, so it is stopped and started anew",
        "could not come back from where it is, so it is stopped and started anew",
    ),
    "gap_over": _p("steps aside: {service} is awake on its device", "steps aside for a model that is awake"),
    "prod_only": _p(
        "prod only, set by {by}: no job and no lease starts", "prod only: no job and no lease starts",
        help="headway prod-only off",
    ),
    "outside_window": _p(
        "it runs in windows only, and none is open over {service}; the next begins in {in_s}",
        "it runs in windows only; the next begins in {in_s}", "it runs in windows only, and none is known to come",
        help=("headway window {lists}", "headway window start slow_wake {service} --for 2h",
              "headway window start slow_wake --for 2h"),
        derive=known_to_come,
    ),
    "no_way_aside": _p(
        "would lose its work when {service} wants the device, so it starts there in windows only, next in {in_s}; "
        "say how it saves its work (`saved`, `resumable`), or start it anyway",
        "would lose its work when {service} wants the device, and no other device is there; "
        "say how it saves its work (`saved`, `resumable`), or start it anyway",
        "would lose its work when a model wants the device",
        help="headway start {id} --anyway",
    ),
    "frozen": _p(
        "frozen while {service} answers {active_words}", "frozen; goes on in {in_s}", "frozen while a model answers",
        derive=requests_active,
    ),
    "no_model": _p(
        "the window {window} keeps it aside for {in_s} more", "a window keeps it aside",
        help="headway window stop {window}",
    ),
    "idle_ttl": _p("nobody used it for {idle_s}, so it gives its memory back", "nobody used it for long enough"),
    # rules: who may come
    "shadow": _p(
        "the mode is shadow, so nobody waits: live it would have waited {would_s}",
        "the mode is shadow, so nobody waits: live it would wait now ({why})",
        "the mode is shadow: Headway only watches",
        help="headway mode live",
    ),
    "held": _p(
        "held by {by} {ago}, until it is released ({note})",
        "held by {by}, until it is released ({note})",
        "held until it is released ({note})",
        "held by {by} {ago}, until it is released",
        "held by {by}, until it is released",
        "held until it is released",
        help="headway release {id}", derive=held,
    ),
    "queue_held": _p(
        "the daemon ended {crashes} times in a short while without being told to, so no job starts until the queue is "
        "released",
        "the whole queue is held by {by}: no job starts", "the whole queue is held: no job starts",
        help="headway queue release",
    ),
    "after": _p(
        "waits for the end of {after_held}, which is held", "waits for the end of {after}", "waits for another job",
        help="headway why {after}", derive=waited_for_held,
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
    "slots": _p(
        "one at a time, and {other} runs", "{active} of at most {limit} jobs run already: {all}",
        "{active} of at most {limit} jobs run already, {some} among them",
        "{active} of at most {limit} jobs run already", "others run already",
        help=("headway stop {in_the_way}", "headway move {behind} --top"), derive=who_runs,
    ),
    "store_silent": _p(
        "{trouble} Until then nothing new is started",
        "the database does not answer, so nothing new is started",
        help="headway status",
    ),
    "host_floor": _p(
        "{free_bytes} of main memory are free, and {floor_bytes} have to stay free, so nothing new starts",
        "too little main memory is free, so nothing new starts",
        help="headway status",
    ),
    "disk_floor": _p(
        "{free_bytes} of the disk with Headway's files are free, and {floor_bytes} have to stay free, so nothing new "
        "starts",
        "too little of the disk with Headway's files is free, so nothing new starts",
        help="headway status",
    ),
    "host_short": _p(
        "for {holder} to be {to} takes {need_bytes} of main memory: {free_bytes} are free, others take "
        "{promised_bytes} of that soon, and {floor_bytes} have to stay free",
        "for {holder} to be {to} takes {need_bytes} of main memory: {free_bytes} are free, and {floor_bytes} have to "
        "stay free",
        "for {holder} to be {to} may take main memory: {free_bytes} are free, and {floor_bytes} have to stay free",
        "too little main memory is free for that",
        help="headway status",
    ),
    "disk_short": _p(
        "for {holder} to be {to} takes {need_bytes} of the disk of {directory}: {free_bytes} are free, others take "
        "{promised_bytes} of that soon, and {floor_bytes} have to stay free",
        "for {holder} to be {to} takes {need_bytes} of the disk of {directory}: {free_bytes} are free, and "
        "{floor_bytes} have to stay free",
        "too little of its disk is free for that",
        help="headway status",
    ),
    "demand_unknown": _p(
        "the gate has not said yet who waits for {services}; starts in {in_s} at the latest",
        "the gate has not said yet who waits",
    ),
    # the pass
    "keeps": _p("keeps its place"),
    "goes": _p("takes the place of {victims}", "has its place, and goes there as soon as it is safe"),
    "made_room": _p("made room for {for}", "made room", help="headway why {for}"),
    "reserved": _p("the room is kept for {for}, which has waited longer", "the room is kept for another"),
    "kept": _p(
        "kept for {for}, which has waited {waited_s} and starts in about {starts_in_s}; this one may take {takes_s}",
        "kept for {for}, which has waited {waited_s} and starts in about {starts_in_s}; how long this one takes is not "
        "known",
        "kept for {for}, which has waited {waited_s}; when that one starts is not known",
        "the room is kept for one that has waited longer",
        help="headway why {for}",
    ),
    "never_fits": _p(
        "can never start here: wants {missing}, and there is only {devices}",
        "can never start here: needs {need_bytes} on each of {many}, more than there is even when empty ({devices})",
        "can never start here: needs {need_bytes}, more than any device has even when empty ({devices})",
        "can never start here: needs {many}, and there are fewer ({devices})",
        "can never fit on the devices there are",
        help=("headway cancel {job_id}", "headway status"), derive=many,
    ),
    "crowded_out": _p(
        "needs {need_bytes} on {device}; pid {pids}, which is not ours, has {outside_bytes}",
        "needs {need_bytes} on {device}; programs that are not ours hold {outside_bytes}",
        "programs that are not ours hold the memory it needs",
        help="headway status",
    ),
    "first_reading": _p(
        "no device can be read: {trouble}",
        "wants {missing}, and so far there is only {devices}",
        "wants {many}, and so far there is only {devices}",
        "the devices have not been read since the start",
        derive=many,
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
    "runs_alone": _p(
        "{job} ran out of memory beside others, so its next attempt gets a device alone; {holder} is there",
        "one that ran out of memory gets a device alone",
        help="headway why {holder}",
    ),
    "blocked": _p(
        "{holder} was started by hand and keeps jobs and leases off its device",
        "work that was started by hand keeps jobs and leases off its device",
        help="headway why {holder}",
    ),
    # who may push whom
    "not_preemptible": _p(
        "{holder} has had the device for {held_s}, for {by}, for up to {in_s} more",
        "{holder} has had the device for {held_s}, for {by}, until it is given back",
        "a lease has the device",
        help="headway why {holder}",
    ),
    "outranked": _p(
        "{holder} has had the device for {held_s}, for {by}, with the higher priority ({priority}, here {own}), "
        "for up to {in_s} more",
        "{holder} has had the device for {held_s}, for {by}, with the higher priority ({priority}, here {own})",
        "a lease of higher priority has the device",
        help="headway why {holder}",
    ),
    "claimed": _p(
        "{holder} has the device: started by hand by {by}, pid {pid}; it is counted and never touched",
        "{holder} has the device: started by hand, so it is counted and never touched",
        "work that was started by hand has the device",
    ),
    "kept_its_place": _p(
        "{holder} was asked to leave and kept its place; it is asked again in {in_s}",
        "a lease was asked to leave and kept its place",
    ),
    "too_weak": _p("waits for {holder} to leave by itself", "waits for others to leave by themselves"),
    "gate_stuck": _p(
        "a gate of {service} neither answers nor can be ended, so {service} stays; tries again in {in_s}",
        "a gate neither answers nor can be ended",
        help="headway events",
    ),
    "stayed": _p(
        "{holder} did not step aside when it was asked ({note}); it is asked again in {in_s}",
        "{holder} did not step aside when it was asked; it is asked again in {in_s}",
        "did not step aside when it was asked",
        help="headway why {holder}",
    ),
    "cannot_step_aside": _p(
        "{holder} cannot give its memory back from where it is", "who is there cannot give its memory back",
        help="headway stop {holder}",
    ),
    "beside_only": _p(
        "its placement is beside {service}, never in its place", "its placement is beside a model, never in its place"
    ),
    "model_busy": _p(
        "{service} is answering {active_words}; its turn is in {in_s} at the latest",
        "{service} is answering requests; its turn is in {in_s} at the latest",
        "{service} is answering {active_words}",
        "{service} is answering requests",
        "a model is answering requests",
        derive=requests_active,
    ),
    "load_unserved": _p(
        "{service} was just loaded and answers at least one request first", "a model was just loaded for a request"
    ),
    "residency": _p(
        "{holder} has just come, and stays for {in_s} more", "who is there has just come"
    ),
    "would_lose_work": _p(
        "{holder} would lose work since its last saved point", "who is there would lose work",
        help="headway why {holder}",
    ),
    "just_pushed": _p("was pushed aside and lets {holder} be for {in_s} more", "was pushed aside a moment ago"),
    "gap_too_short": _p(
        "{talks_words} could come back to {services}, quiet for {quiet_s}; starts when nobody does for {in_s} more, "
        "which would earn {gain_s} of job time for {wait_s} of waiting",
        "nobody is expected at {services}, quiet for {quiet_s}; starts in {in_s}",
        "the model has not been quiet for long enough",
        help="headway start {id}", derive=could_come_back,
    ),
    "gap_not_worth": _p(
        "{talks_words} could come back to {services}, quiet for {quiet_s}: a swap would not earn {price} s of job time "
        "for each second of waiting",
        "a swap with {services} would not earn {price} s of job time for each second of waiting",
        "a swap with the model would not be worth the waiting",
        help="headway start {id}", derive=could_come_back,
    ),
    "gap_taken": _p(
        "put aside for {job}: {talks_words} could come back; 80 % chance of at least {likely_s} more quiet; expecting "
        "{gain_s} of job time for {wait_s} of waiting",
        "put aside for {job}: nobody is known who could come back; expecting {gain_s} of job time for {wait_s} of "
        "waiting",
        "put aside for {job} after {quiet_s} of quiet",
        "put aside for a job",
        derive=could_come_back,
    ),
    "gap_promised": _p(
        "{waited} of the {requests} requests to {service} in the last 24 h waited for it, {waited_s} together: as much "
        "as was promised; starts when more requests came, or that is longer ago",
        "the requests of its model have waited as much in a day as was promised",
        help="headway service show {service}",
    ),
    "gap_unread": _p(
        "{service} has just answered; how that ended is being read", "what the model answered last is being read"
    ),
    # the next step
    "draining": _p(
        "its gate is still {gate}", "finishes {pinning_words} in flight", "finishes what is in flight", derive=gate,
    ),
    "given_up": _p("did not become {to}, and nothing lower is ours to use", "is given up"),
    "no_way": _p("its driver knows no way from {form} to {to}", "its driver knows no way there"),
    "device_busy": _p(
        "waits for {moving}, which is moving on {devices}", "waits for a move on {devices}", "waits for another move"
    ),
    "moving": _p("under way for {since_s}", "under way"),
    "verifying": _p("says it {did}; something of it (pid {pid}) still lives",
                    "says it {did}; its memory is being measured", derive=did),
    "not_released": _p(
        "says it {did}; {shows} held by pid {pid}, {expected} expected",
        "says it {did}; {shows} held by it, {expected} expected",
        "says it {did}, but its memory is still in use",
        help="headway stop {id}",
        derive=still_held,
    ),
    # made by view itself, where the pass has nothing to say
    "behind": _p("number {position} in line; those before it are looked at first", "stands in line"),
    "runs": _p(
        "on {devices} for {in_state_s}, and shows no sign of work for {silent_s}",
        "on {devices} for {in_state_s}, {share} done, {left_s} left ({low_s} to {high_s})",
        "on {devices} for {in_state_s}, {left_s} left ({low_s} to {high_s})",
        "on {devices} for {in_state_s}, {share} done", "on {devices} for {in_state_s}", "for {in_state_s}",
        derive=share_done,
    ),
    "answers": _p("answering {active_words}; then goes to sleep, as {dismissed_by} said",
                  "answering {active_words}", derive=requests_active),
    "idle": _p("goes to sleep as soon as nobody uses it, as {dismissed_by} said",
               "quiet for {quiet_s}; in nobody's way", "in nobody's way"),
    "aside": _p("sent to sleep by {dismissed_by}, until somebody asks for it", "nobody asks for it",
                help="send it a request"),
    "start_failed": _p("{note}; tries again when asked", "could not start", help="headway service show {id}"),
    "unseen": _p("not observed yet"),
    # leases and claims
    "granted": _p(
        "for {held_s}, for {by}, for up to {left_s} more", "for {held_s}, for {by}", "for {in_state_s}"
    ),
    "counted": _p("started by hand, pid {pid}; counted for {held_s}", "started by hand; counted for {held_s}",
                  "started by hand; counted"),
    "overdue": _p(
        "{late_s} past its time and its process lives (pid {pid}); it leaves for whoever is next",
        "past its time, and its process lives; it leaves for whoever is next",
        help="headway stop {id}",
    ),
    "asked_to_leave": _p(
        "was asked {since_s} ago to give its device back; its process (pid {pid}) lives",
        "was asked {since_s} ago to give its device back, and has not yet",
        "was asked to give its device back",
    ),
    "not_left": _p("did not give its device back in time, and keeps it"),
    "waited_out": _p("waited {waited_s} and was not let in: {why}", "waited {waited_s} and was not let in",
                     "waited as long as it could"),
    "lapsed": _p("nobody renewed it in time"),
    "released": _p("{up}, {ago}", "{up}", "given back {ago}", "given back", derive=given_up),
    "gone": _p("its process ended {ago}", "its process ended", derive=ended),
    "revoked": _p("gave its device back {ended_s} ago, as it was asked to", "gave its device back, as it was asked to"),
    "done": _p("ended well {ago}, ran for {ran_s}", "ended well", derive=ended),
    "failed": _p("{note}", "{exit} {ended_s} ago, ran for {ran_s}", "ended badly", help="headway log {id}",
                 derive=how_it_ended),
    "cancelled": _p("cancelled {ago}", "cancelled", derive=ended),
    "lost": _p(
        "its process was gone {ended_s} ago, how it ended is not known", "its process was gone",
        help="headway retry {id}",
    ),
}  # fmt: skip
