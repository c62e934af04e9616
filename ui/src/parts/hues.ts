// The colour of a holder, wherever it is shown.

const HUES = 6
const seen = new Map<string, number>()

function numberOf(id: string): number {
  if (!seen.has(id)) seen.set(id, seen.size)
  return seen.get(id)! % HUES
}

/** A holder keeps its colour while the page is open, wherever it goes. */
export function hueOf(id: string): string {
  return `var(--hue-${numberOf(id)})`
}

/** The colours of some that are shown in one picture: each has its own, unless one before it has that already. */
export function huesOf(ids: string[]): string[] {
  const taken = new Set<number>()
  return ids.map((id) => {
    let number = numberOf(id)
    while (taken.has(number) && taken.size < HUES) number = (number + 1) % HUES
    taken.add(number)
    return `var(--hue-${number})`
  })
}
