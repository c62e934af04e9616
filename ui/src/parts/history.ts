// What the API tells of memory over time, as the chart and the table want it.

import type { MemoryBucket, MemoryHolder, MemoryOverTime, Share } from "../api"
import { duration, label } from "../words"
import { huesOf } from "./hues"

const SHOWN = 6 // holders with an area of their own, and all who are there now

/** One area of the chart. `of` reads its bytes from a bucket. */
export interface Layer {
  key: string
  name: string
  colour: string
  of: (bucket: MemoryBucket) => number
  busy: ((bucket: MemoryBucket) => number) | null
}

/** From the bottom up: who held most, the others as one, and what is not ours. Many jobs that went are one by their name. */
export function layers(found: MemoryOverTime, here: readonly Share[]): Layer[] {
  const now = new Set(here.map((one) => one.id))
  const groups = grouped(found.holders, now)
  const first = groups.filter(([one]) => now.has(one!.id))
  const own = new Set([...first, ...groups.filter((ones) => !first.includes(ones)).slice(0, Math.max(0, SHOWN - first.length))])
  const shown = groups.filter((ones) => own.has(ones))
  const rest = groups.filter((ones) => !own.has(ones)).flat()
  const colours = huesOf(`chart ${found.device}`, shown.map((ones) => ones[0]!.id))
  const made = shown.map((ones, n) => layer(ones, colours[n]!))
  if (rest.length) {
    const name = rest.length === 1 ? label(rest[0]!) : `${rest.length} others`
    made.push({ ...layer(rest, "color-mix(in srgb, var(--soft) 60%, var(--card))"), key: "/rest", name, busy: null })
  }
  if (found.buckets.some((bucket) => bucket.foreign_bytes)) {
    made.push({ key: "/foreign", name: "not ours", colour: "var(--unknown)", of: (bucket) => bucket.foreign_bytes, busy: null })
  }
  return made
}

/** Who is there now is in the bar too, in a colour of its own, and so in no group. */
function grouped(holders: MemoryHolder[], now: Set<string>): MemoryHolder[][] {
  if (holders.length <= SHOWN) return holders.map((one) => [one])
  const groups = new Map<string, MemoryHolder[]>()
  for (const one of holders) {
    const key = one.kind === "job" && !now.has(one.id) ? `job ${one.name}` : one.id
    groups.set(key, [...(groups.get(key) ?? []), one])
  }
  return [...groups.values()]
}

function layer(ones: MemoryHolder[], colour: string): Layer {
  const first = ones[0]!
  const sum = (of: Record<string, number>) => ones.reduce((all, one) => all + (of[one.id] ?? 0), 0)
  return {
    key: first.id,
    name: ones.length > 1 ? `${first.name} (${ones.length} jobs)` : label(first),
    colour,
    of: (bucket) => sum(bucket.bytes),
    busy: first.kind === "service" ? (bucket) => sum(bucket.busy) : null,
  }
}

/** The mean of something over all buckets, each as long as it was looked at. */
export function mean(found: MemoryOverTime, of: (bucket: MemoryBucket) => number): number {
  const looks = found.buckets.reduce((sum, bucket) => sum + bucket.looks, 0)
  return found.buckets.reduce((sum, bucket) => sum + of(bucket) * bucket.looks, 0) / (looks || 1)
}

const ALL = 0.95 // of a range: what lacks is a moment here and there

/** Over how long the means are: the range, or as much of it as the device could be read. */
export function over(found: MemoryOverTime, range: string): string {
  const measuredS = found.buckets.reduce((sum, bucket) => sum + bucket.looks, 0)
  return measuredS < ALL * (found.to_s - found.from_s) ? `${duration(measuredS)} measured in the last ${range}` : `the last ${range}`
}

export function percent(share: number): string {
  return share > 0 && share < 0.01 ? "under 1 %" : `${Math.round(share * 100)} %`
}
