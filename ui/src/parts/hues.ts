// The colour of a holder, wherever it is shown.

const HUES = 12 // of the style sheet; who comes when all of them are in sight gets one that is made
const TURN = 137.508 // degrees: neighbours in this row are far from each other

const numbers = new Map<string, number>()
const owners = new Map<number, string>() // who had a colour last; the one longest ago comes first
const pictures = new Map<string, string[]>() // who is in sight, by picture

const cssOf = (number: number) => (number < HUES ? `var(--hue-${number})` : `hsl(${((number * TURN) % 360).toFixed(0)} 45% 50%)`)

/** The first that nobody had, else the one that was out of sight for longest. */
function unused(seen: Set<string>): number {
  for (let number = 0; number < HUES; number++) if (!owners.has(number)) return number
  for (const [number, owner] of owners) if (!seen.has(owner)) return number
  return owners.size
}

/**
 * The colours of those in one picture. A holder keeps its colour while the page is open, in every picture, and no two
 * that are in sight have the same one. Only who comes back to find it given to another in sight gets a new one.
 */
export function huesOf(picture: string, ids: string[]): string[] {
  pictures.set(picture, ids)
  const seen = new Set([...pictures.values()].flat())
  return ids.map((id) => {
    let number = numbers.get(id)
    const owner = number === undefined ? undefined : owners.get(number)
    if (number === undefined || (owner !== id && seen.has(owner!))) number = unused(seen)
    numbers.set(id, number)
    owners.delete(number)
    owners.set(number, id)
    return cssOf(number)
  })
}
