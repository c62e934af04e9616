// One verb on one thing or on many, with the reason that somebody gives.

import type { Many } from "../api"
import { label } from "../words"
import { change, notes } from "./notes.svelte"
import { Refused, call } from "./session.svelte"
import type { Verb } from "./verbs"

const TOLD = 3 // refusals that are told one by one

/** On one. What is over is forgotten by the way that means many: there is no other. */
export function onOne(row: { id: string; name: string }, path: string, one: Verb, reason: string): Promise<boolean> {
  const said = `${one.text}: ${label(row)}`
  const body = { ...one.body, ...(reason ? { reason } : {}) }
  if (one.verb === "clear") return change(said, "POST", "api/v1/select/clear", { targets: [row.id], ...body })
  return change(said, "POST", `${path}/${encodeURIComponent(row.id)}/${one.verb}`, body)
}

/** On many jobs. True: it was done with all of them; whom it was refused for is told. */
export async function onMany(ids: string[], verb: string, text: string, body: object = {}): Promise<boolean> {
  try {
    const reply = await call("POST", `api/v1/select/${verb}`, { targets: ids, ...body })
    if (reply === null) return false
    const { results } = (await reply.json()) as Many
    const no = results.filter((one) => !one.accepted)
    if (results.length > no.length) notes.say(`${text}: ${results.length - no.length} jobs`)
    for (const one of no.slice(0, TOLD)) notes.say(`${one.id}: ${one.detail ?? one.code}`, true)
    if (no.length > TOLD) notes.say(`and ${no.length - TOLD} more of them`, true)
    return !no.length
  } catch (error) {
    notes.say(error instanceof Refused ? error.message : "Nobody answers: Headway is away, or starts again.", true)
    return false
  }
}
