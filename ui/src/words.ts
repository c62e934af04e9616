// Numbers in words, as the command line says them (core/units.py).

/** Seconds, two units at most: "3.4 s", "14 min", "1 h 6 min". */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return "unknown"
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)} s`.replace(".0 s", " s")
  if (seconds < 120) return `${Math.floor(seconds)} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min`
  const hours = Math.floor(minutes / 60)
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`
  return hours % 24 ? `${Math.floor(hours / 24)} d ${hours % 24} h` : `${hours / 24} d`
}

/** How long something has been so: whole seconds, since it is seen to count. */
export function age(seconds: number | null | undefined): string {
  return seconds === null || seconds === undefined ? "" : duration(seconds < 10 ? Math.floor(Math.max(0, seconds)) : seconds)
}

const MIB = 2 ** 20
const GIB = 2 ** 30

export function size(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined) return "unknown"
  if (bytes > 0 && bytes < 100 * MIB) return `${Math.max(1, Math.round(bytes / MIB))} MiB`
  return `${(bytes / GIB).toFixed(1)} GiB`.replace(".0 GiB", " GiB")
}

/** A share between 0 and 1. */
export function percent(share: number): string {
  const by = share * 100
  return `${by > 0 && by < 10 ? by.toFixed(1).replace(".0", "") : by.toFixed(0)} %`
}

/** The words of a state: "winding_down" -> "winding down". */
export function plain(word: string): string {
  return word.replaceAll("_", " ")
}

/** A name with its id beside it, where they differ. */
export function label(row: { name: string; id: string }): string {
  return row.name === row.id ? row.name : `${row.name} (${row.id})`
}

/** A reason that does not say its state once more: "running: runs" -> "runs". */
export function reason(row: { state: string; why: string }): string {
  const word = plain(row.state)
  const rest = row.why.startsWith(word) ? row.why.slice(word.length).replace(/^[:,;]?\s*/, "") : row.why
  return rest || row.why
}

export function clock(wallS: number): string {
  return new Date(wallS * 1000).toLocaleString(undefined, { dateStyle: "short", timeStyle: "medium" })
}
