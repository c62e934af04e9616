// Reading from the daemon. Nobody else of the page may call fetch: a daemon that goes away in the middle of an answer
// breaks it at the status, or later at the body, and whoever forgot the second one would never look again.

import type { Problem } from "../api"
import { trouble } from "./trouble.svelte"

const LONGEST_MS = 15_000 // a browser has six connections for all of its tabs: none may be waited for for ever

interface Head {
  status: number
  headers: Headers
}
/** `body` of a bad one: what the daemon says of it; null: those are not its words. */
export type Answer<T> = Head & ({ ok: true; body: T } | { ok: false; body: Problem | null })

/** What the daemon answers, whole; null: nobody does, or not to the end. */
export async function ask<T>(path: string): Promise<Answer<T> | null> {
  try {
    const reply = await fetch(path, { signal: AbortSignal.timeout(LONGEST_MS) })
    const { status, headers } = reply
    const text = await reply.text()
    trouble.heard(path, reply.ok ? null : problemIn(text))
    return reply.ok ? { ok: true, status, headers, body: JSON.parse(text) as T } : { ok: false, status, headers, body: problemIn(text) }
  } catch {
    return null
  }
}

function problemIn(text: string): Problem | null {
  try {
    return JSON.parse(text) as Problem
  } catch {
    return null
  }
}

/** The same where only a good answer counts. */
export async function read<T>(path: string): Promise<T | null> {
  const answer = await ask<T>(path)
  return answer?.ok ? answer.body : null
}
