// Which verbs make sense in which state. The daemon has the last word: this only keeps a menu short.

import type { JobRow, LeaseRow } from "../api"

export interface Verb {
  verb: string
  text: string
  hint: string
  body?: object
  /** It ends something: a question comes first. */
  sure?: string
}

const START: Verb = { verb: "start", text: "Start now", hint: "first in line, and in the next gap whatever it is worth" }
const ANYWAY: Verb = {
  verb: "start", text: "Start anyway", hint: "beside a model too, though it would lose its work", body: { anyway: true },
  sure: "It starts in the next gap. When the model is asked for again, it is stopped, and what it did is lost.",
}
const HOLD: Verb = { verb: "hold", text: "Hold", hint: "keep it waiting until it is released" }
const RELEASE: Verb = { verb: "release", text: "Release", hint: "let it wait for its turn again" }
const PAUSE: Verb = { verb: "pause", text: "Pause", hint: "park it, and hold it" }
const PAUSE_SAVED: Verb = {
  verb: "pause", text: "Pause at its saved point", hint: "stop it when it has saved, and hold it", body: { at_saved_point: true },
}
const RESUME: Verb = { verb: "resume", text: "Resume", hint: "let it go on" }
const WIND_DOWN: Verb = { verb: "wind_down", text: "Wind down", hint: "run to the next saved point, then stop and hold" }
const STOP: Verb = { verb: "stop", text: "Stop", hint: "end its processes, with grace, and hold it" }
const KILL: Verb = {
  verb: "kill", text: "Kill", hint: "end its processes at once, and hold it",
  sure: "Its processes are ended at once. What it did since its last saved point is lost.",
}
const CANCEL: Verb = {
  verb: "cancel", text: "Cancel", hint: "end it for good",
  sure: "It is ended for good, and does not start again by itself.",
}
const RETRY: Verb = { verb: "retry", text: "Restart", hint: "queue it again" }
const FORGET: Verb = {
  verb: "clear", text: "Forget", hint: "take it from every list",
  sure: "It is gone from every list. The logs of its last runs stay for a while.",
}

const OF_JOB: Record<string, Verb[]> = {
  queued: [START, ANYWAY, HOLD, CANCEL],
  held: [RELEASE, START, ANYWAY, CANCEL],
  starting: [HOLD, STOP, KILL, CANCEL],
  running: [PAUSE, PAUSE_SAVED, WIND_DOWN, STOP, KILL, CANCEL],
  frozen: [PAUSE, STOP, KILL, CANCEL],
  parking: [RESUME, STOP, KILL, CANCEL],
  parked: [START, HOLD, RESUME, STOP, KILL, CANCEL],
  resuming: [PAUSE, STOP, KILL, CANCEL],
  winding_down: [RESUME, STOP, KILL, CANCEL],
  stopping: [KILL, CANCEL],
  done: [RETRY, FORGET],
  failed: [RETRY, FORGET],
  cancelled: [FORGET],
  lost: [RETRY, FORGET],
}

/** Every verb on a job, for who reads what they mean. */
export const JOB_VERBS: Verb[] = [START, ANYWAY, HOLD, RELEASE, PAUSE, PAUSE_SAVED, RESUME, WIND_DOWN, STOP, KILL, CANCEL, RETRY, FORGET]

export function jobVerbs(row: JobRow): Verb[] {
  const not = new Set<Verb>()
  if (row.step_aside !== "none") not.add(ANYWAY)
  // one that cannot park has another way to pause
  not.add(row.step_aside === "park" ? PAUSE_SAVED : PAUSE)
  if (!row.saves) not.add(PAUSE_SAVED) // there is no saved point that it could reach
  // one that is parked because it was asked to is let go on; one that only steps aside is held
  if (row.state === "parked") not.add(row.wish === "run" ? RESUME : HOLD)
  return (OF_JOB[row.state] ?? []).filter((one) => !not.has(one))
}

const S_WAKE: Verb = { verb: "wake", text: "Wake", hint: "bring it, as a request would: jobs step aside" }
const S_SLEEP: Verb = { verb: "sleep", text: "Sleep", hint: "put it aside once nobody uses it; a request brings it back" }
const S_HOLD: Verb = { verb: "hold", text: "Hold", hint: "keep it aside until it is released; requests for it are refused" }
const S_RELEASE: Verb = { verb: "release", text: "Release", hint: "let it come back when it is asked for" }
const S_STOP: Verb = {
  verb: "stop", text: "Stop", hint: "end its server, and keep it stopped",
  sure: "What it answers now is finished first. Then its server ends, and requests for it are refused until you wake it.",
}
const S_KILL: Verb = {
  verb: "kill", text: "Kill", hint: "end its server at once, and keep it stopped",
  sure: "Its server is ended at once: requests that are being answered are cut off.",
}

export const SERVICE_VERBS: Verb[] = [S_WAKE, S_SLEEP, S_HOLD, S_RELEASE, S_STOP, S_KILL]

export function serviceVerbs(state: string, wish: string): Verb[] {
  if (wish !== "run") return [S_RELEASE, S_WAKE, S_STOP, S_KILL]
  return ["awake", "starting", "waking"].includes(state) ? [S_SLEEP, S_HOLD, S_STOP, S_KILL] : [S_WAKE, S_HOLD, S_STOP, S_KILL]
}

const LEAVE: Verb = {
  verb: "stop", text: "Ask to leave", hint: "its program is told to give its devices back, and may end by itself",
  sure: "Its program is told to give its devices back. headway run ends its command for that.",
}

/** A lease that may be asked to leave: those that said so, and those that are past their time. */
export function leaseVerbs(row: LeaseRow): Verb[] {
  const held = row.held_s !== null && row.ended === null && row.wish === "run"
  return row.kind === "lease" && held && (row.preemptible || (row.expires_in_s ?? 0) < 0) ? [LEAVE] : []
}
