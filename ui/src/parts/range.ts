// How far back the charts of memory go: `#/now?range=7d`.

import { route } from "../state/route.svelte"

export const RANGES = { "1h": "1 hour", "6h": "6 hours", "24h": "24 hours", "3d": "3 days", "7d": "7 days" } as const
export type Range = keyof typeof RANGES
const FIRST: Range = "1h"

/** The one in the address; where that has none, or none that there is, an hour. */
export function range(): Range {
  const word = route.query.get("range")
  return word !== null && word in RANGES ? (word as Range) : FIRST
}

export function choose(word: string): void {
  route.filter("range", word === FIRST ? "" : word)
}
