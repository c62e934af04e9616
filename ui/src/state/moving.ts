// The order of the queue: a move is done in the order that was seen, or not at all, and then it is said why.

import type { JobRow } from "../api"
import { label } from "../words"
import { jobs } from "./jobs.svelte"
import { change } from "./notes.svelte"

export type Where = "top" | "bottom" | "before" | "after"

const WORDS: Record<Where, string> = { top: "runs next", bottom: "goes last", before: "goes before", after: "goes after" }

export async function moveJob(row: JobRow, where: Where, other: string | null = null): Promise<boolean> {
  const said = `${label(row)} ${WORDS[where]}${other ? ` ${other}` : ""}.`
  const done = await change(said, "POST", "api/v1/queue/move", { target: row.id, where, ...(other ? { other } : {}) }, jobs.mark)
  await jobs.look()
  return done
}
