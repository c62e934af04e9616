// The order of the queue: a move is done in the order that was seen, or not at all, and then it is said why.

import { jobs } from "./jobs.svelte"
import { change } from "./notes.svelte"

export type Where = "top" | "bottom" | "before" | "after"

/** What becomes of them, for each place. */
export const PLACES: Record<Where, string> = {
  top: "to the front",
  bottom: "to the end",
  before: "right before",
  after: "right after",
}

export interface Move {
  ids: string[]
  /** What they are called in the note. */
  name: string
  where: Where
  other?: string | null
  /** Of the order that was seen; left out: the one that the list of jobs shows. */
  mark?: string | null
}

/** Move jobs, which keep their order. */
export async function moveJobs({ ids, name, where, other = null, mark = jobs.mark }: Move): Promise<boolean> {
  const said = `Moved ${name} ${PLACES[where]}${other ? ` ${other}` : ""}.`
  const done = await change(said, "POST", "api/v1/queue/move", { target: ids, where, ...(other ? { other } : {}) }, mark)
  await jobs.look()
  return done
}
