// What became of what somebody did, in words, until it is put away.

import { Refused, call } from "./session.svelte"

interface Note {
  id: number
  text: string
  bad: boolean
}

const GOOD_MS = 6000

class Notes {
  shown = $state<Note[]>([])
  #last = 0

  say(text: string, bad = false): void {
    const note = { id: ++this.#last, text, bad }
    this.shown = [...this.shown.slice(-3), note]
    if (!bad) setTimeout(() => this.drop(note.id), GOOD_MS)
  }

  drop(id: number): void {
    this.shown = this.shown.filter((note) => note.id !== id)
  }
}

export const notes = new Notes()

/** Do one change and say how it went. True: the daemon has accepted it. */
export async function change(
  said: string,
  method: string,
  path: string,
  body?: object,
  etag?: string | null,
): Promise<boolean> {
  try {
    const reply = await call(method, path, body, etag)
    if (reply === null) return false
    notes.say(said)
    return true
  } catch (error) {
    notes.say(error instanceof Refused ? error.message : "Nobody answers: Headway is away, or starts again.", true)
    return false
  }
}
