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

const UNITS_S: Record<string, number> = { ms: 0.001, s: 1, m: 60, min: 60, h: 3600, d: 86_400 }
const STEP = /^(\d+(?:\.\d+)?)\s*(ms|min|[smhd])\s*/

/** "90s", "1.5 h", "1h 30min", larger units first, as seconds; null: it is none. */
export function seconds(text: string): number | null {
  let rest = text.trim()
  let sum = 0
  let last = Infinity
  if (!rest) return null
  while (rest) {
    const [step, count, unit] = STEP.exec(rest) ?? []
    const unitS = UNITS_S[unit ?? ""]
    if (!step || !unitS || unitS >= last) return null
    sum += Number(count) * unitS
    last = unitS
    rest = rest.slice(step.length)
  }
  return sum
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

/** A command as a shell takes it. */
export function typed(argv: readonly string[]): string {
  return argv.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`)).join(" ")
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
