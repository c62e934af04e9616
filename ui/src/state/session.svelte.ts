// Who this page is to the daemon: reading is open, a change asks for the PIN once.

import type { Problem, SessionBegun, Who } from "../api"
import { ask } from "./ask"
import { board } from "./board.svelte"

const LONGEST_MS = 40_000 // a daemon that hangs is said to
const KEPT = "headway_csrf" // `headway open` leaves it there too

export const letIn = (who: Who | null) => who?.via === "pin" || who?.via === "token"

/** What the daemon said no to, in its own words. */
export class Refused extends Error {
  constructor(
    readonly problem: Problem,
    readonly etag: string | null,
  ) {
    super(problem.detail)
  }
}

class Session {
  asking = $state(false)
  error = $state("")
  who = $state.raw<Who | null>(null)
  /** That there was a session, and why it is over. `seen`: this page was let in by it. */
  over = $state.raw<{ words: string; seen: boolean } | null>(null)
  #waiting: ((given: boolean) => void)[] = []
  #looks = 0
  #life = "" // of the daemon that let this page in

  async look(): Promise<void> {
    const look = ++this.#looks
    const answer = await ask<Who>("api/v1/session")
    if (look !== this.#looks || !answer || (!answer.ok && answer.status !== 401)) return
    const seen = letIn(this.who)
    this.who = answer.ok ? answer.body : null
    if (letIn(this.who)) {
      this.over = null
      this.#life = board.life
    } else if (seen || localStorage.getItem(KEPT)) {
      const restarted = this.#life && board.life !== this.#life
      const words = restarted ? "Headway was started again, so the session is over." : "The session is over: it ends after 12 hours, with a new PIN, and when Headway is started again."
      this.over = { words, seen }
      localStorage.removeItem(KEPT)
    }
  }

  /** Show the dialog until a PIN was right (true) or somebody left it (false). */
  ask(): Promise<boolean> {
    this.asking = true
    this.error = ""
    void this.look()
    return new Promise((done) => this.#waiting.push(done))
  }

  async give(pin: string): Promise<void> {
    const reply = await send("POST", "api/v1/session", { pin })
    if (!reply.ok) {
      this.error = (await problemOf(reply)).detail
      return
    }
    localStorage.setItem(KEPT, ((await reply.json()) as SessionBegun).csrf)
    await this.look()
    this.#end(true)
  }

  leave(): void {
    this.#end(false)
  }

  /** Be nobody again. */
  async lock(): Promise<void> {
    await send("DELETE", "api/v1/session").catch(() => null)
    localStorage.removeItem(KEPT)
    this.who = null // by one's own wish: nothing to be told of
    await this.look()
  }

  #end(given: boolean): void {
    this.asking = false
    const waiting = this.#waiting
    this.#waiting = []
    for (const done of waiting) done(given)
  }
}

export const session = new Session()

/** What was sent and never answered: it may have been done, and must not be done twice. */
const unanswered = new Map<string, string>()

export function anyKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("")
}

/**
 * Ask the daemon for something; where it needs the PIN, that is asked for first. Null: the person left the dialog.
 *
 * Throws Refused with the daemon's words, or TypeError when nobody answers.
 */
export async function call(method: string, path: string, body?: object, etag?: string | null): Promise<Response | null> {
  const what = JSON.stringify([method, path, body])
  const key = unanswered.get(what) ?? anyKey() // the same one when it is sent again, after the PIN or a lost answer
  for (;;) {
    unanswered.set(what, key)
    const reply = await send(method, path, body, { etag, key: method === "POST" ? key : null })
    unanswered.delete(what)
    if (reply.ok) return reply
    const problem = await problemOf(reply)
    if (reply.status !== 401 && problem.code !== "csrf") throw new Refused(problem, reply.headers.get("ETag"))
    if (!(await session.ask())) return null
  }
}

interface More {
  etag?: string | null
  key?: string | null
}

function send(method: string, path: string, body?: object, more: More = {}): Promise<Response> {
  const headers: Record<string, string> = { "X-CSRF-Token": localStorage.getItem(KEPT) ?? "" }
  if (body) headers["Content-Type"] = "application/json"
  if (more.etag) headers["If-Match"] = more.etag
  if (more.key) headers["Idempotency-Key"] = more.key
  return fetch(path, { method, headers, body: body ? JSON.stringify(body) : null, signal: AbortSignal.timeout(LONGEST_MS) })
}

async function problemOf(reply: Response): Promise<Problem> {
  try {
    return (await reply.json()) as Problem
  } catch {
    const detail = `the daemon answered ${reply.status} without words: its log says more`
    return { type: "", title: "", status: reply.status, code: "", detail, facts: {}, holder: null, position: null, retry_after_s: null }
  }
}
