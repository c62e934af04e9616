// Text of a terminal as pieces with a colour each. What comes out is text: nothing in a log is ever markup.

export interface Piece {
  text: string
  /** Class names: "red bold". */
  look: string
}

const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"]
// colours (ESC [ ... m), then everything else that steers a terminal
const STEERING = /\x1b\[([0-9;:]*)m|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_].*?(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]/g
const CUBE = [0, 95, 135, 175, 215, 255]

interface Style {
  colour: string
  bold: boolean
  faint: boolean
  under: boolean
}

const PLAIN: Style = { colour: "", bold: false, faint: false, under: false }

/** The lines of a log; a colour goes on over the end of a line, as in a terminal. */
export function pieces(lines: string[]): Piece[][] {
  let style = PLAIN
  return lines.map((line) => {
    const shown = line.replace(/\r+$/, "").split("\r").at(-1) ?? "" // a bar that wrote over itself: its last state
    const found: Piece[] = []
    let from = 0
    for (const match of shown.matchAll(STEERING)) {
      add(found, shown.slice(from, match.index), style)
      from = match.index + match[0].length
      if (match[1] !== undefined) style = styled(style, match[1])
    }
    add(found, shown.slice(from), style)
    return found
  })
}

function add(found: Piece[], text: string, style: Style): void {
  if (!text) return
  const look = [style.colour, style.bold && "bold", style.faint && "faint", style.under && "under"].filter(Boolean).join(" ")
  found.push({ text, look })
}

function styled(before: Style, words: string): Style {
  const codes = words.split(/[;:]/).map(Number)
  let style = before
  for (let n = 0; n < codes.length; n++) {
    const code = codes[n]!
    if (code === 0) style = PLAIN
    else if (code === 1) style = { ...style, bold: true }
    else if (code === 2) style = { ...style, faint: true }
    else if (code === 4) style = { ...style, under: true }
    else if (code === 22) style = { ...style, bold: false, faint: false }
    else if (code === 24) style = { ...style, under: false }
    else if (code === 39) style = { ...style, colour: "" }
    else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) style = { ...style, colour: NAMES[code % 10]! }
    else if (code === 38 || code === 48) {
      const [name, used] = extended(codes.slice(n + 1))
      if (code === 38) style = { ...style, colour: name }
      n += used
    }
  }
  return style
}

/** One of 256 colours, or of all of them, as the nearest of the eight, which can be read on our ground. */
function extended(codes: number[]): [string, number] {
  if (codes[0] === 2) return [nearest(codes.slice(1, 4)), 4]
  const code = codes[1] ?? 0
  if (codes[0] !== 5) return ["", 0]
  if (code < 16) return [NAMES[code % 8]!, 2]
  if (code >= 232) return ["white", 2]
  const at = code - 16
  return [nearest([CUBE[Math.floor(at / 36)]!, CUBE[Math.floor(at / 6) % 6]!, CUBE[at % 6]!]), 2]
}

function nearest(rgb: number[]): string {
  const top = Math.max(...rgb, 1)
  const bits = rgb.reduce((sum, value, n) => sum + (value > top * 0.6 ? 1 << n : 0), 0)
  return NAMES[bits] ?? "white"
}
