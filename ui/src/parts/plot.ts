// The chart itself, by uPlot: a canvas with areas upon each other, a line of peaks, and a strip of how busy models were.

import uPlot from "uplot"
import "uplot/dist/uPlot.min.css"
import type { MemoryBucket, MemoryOverTime } from "../api"
import { size } from "../words"
import type { Layer } from "./history"

const STRIP = 11 // CSS pixels of a model's strip, and the room to the next
const GAP = 4
const PALEST = 0.4
const AXIS = 26
const LEFT = 62
const HEIGHT = 170
const DAY_S = 86_400
const GIB = 2 ** 30
const TICKS = [1, 2, 4, 5, 8, 10, 16, 20, 32, 40, 50, 80, 100, 200, 400].map((gib) => gib * GIB)

const strips = (layers: Layer[]) => layers.filter((one) => one.busy !== null)

/** Moments; the layers, each with those below it, from the top; the peaks. Nothing is there where nobody could read. */
function columns(found: MemoryOverTime, layers: Layer[]): uPlot.AlignedData {
  const at: number[] = []
  const sums: (number | null)[][] = layers.map(() => [])
  const peaks: (number | null)[] = []
  const put = (s: number, bucket: MemoryBucket | null) => {
    at.push(s)
    peaks.push(bucket?.peak_bytes ?? null)
    let below = 0
    layers.forEach((one, n) => sums[n]!.push(bucket ? (below += one.of(bucket)) : null))
  }
  found.buckets.forEach((bucket, n) => {
    put(bucket.at_s, bucket)
    const end = bucket.at_s + found.step_s
    const next = found.buckets[n + 1]
    if (next?.at_s === end) return
    put(end - 0.002, bucket)
    if (next) put(end - 0.001, null)
  })
  return [at, ...sums.toReversed(), peaks]
}

/** One chart in `place`. `colour` says what a CSS colour is there and now; `pointed` is told the bucket under the pointer. */
export class Plot {
  #found: MemoryOverTime
  #layers: Layer[]
  #plot: uPlot
  #names: string
  #watcher: ResizeObserver

  constructor(
    place: HTMLElement,
    found: MemoryOverTime,
    layers: Layer[],
    readonly colour: (css: string) => string,
    pointed: (bucket: MemoryBucket | null) => void,
  ) {
    this.#found = found
    this.#layers = layers
    this.#names = Plot.#namesOf(layers)
    this.#plot = new uPlot(this.#options(place.clientWidth, pointed), columns(found, layers), place)
    this.#watcher = new ResizeObserver(() => this.#plot.setSize({ width: place.clientWidth, height: this.#height() }))
    this.#watcher.observe(place)
  }

  /** Show something newer. False: others are in it, and a new chart has to be made. */
  show(found: MemoryOverTime, layers: Layer[]): boolean {
    if (Plot.#namesOf(layers) !== this.#names) return false
    this.#found = found
    this.#layers = layers
    this.#plot.setData(columns(found, layers))
    return true
  }

  /** In the colours as they are now. */
  paint(): void {
    this.#plot.redraw(false, true)
  }

  close(): void {
    this.#watcher.disconnect()
    this.#plot.destroy()
  }

  static #namesOf(layers: Layer[]): string {
    return JSON.stringify(layers.map((one) => [one.key, one.colour]))
  }

  #height(): number {
    return HEIGHT + strips(this.#layers).length * (STRIP + GAP)
  }

  #options(width: number, pointed: (bucket: MemoryBucket | null) => void): uPlot.Options {
    const stepped = uPlot.paths.stepped!({ align: 1 })
    const text = () => this.colour("var(--soft)")
    const line = { stroke: () => this.colour("var(--line)"), width: 1 }
    const areas = this.#layers.toReversed().map((one): uPlot.Series => {
      return { paths: stepped, points: { show: false }, width: 0, fill: () => this.colour(one.colour) }
    })
    return {
      width,
      height: this.#height(),
      legend: { show: false },
      padding: [8, 18, 0, 0],
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
      scales: {
        x: { range: () => [this.#found.from_s, this.#found.to_s] },
        y: { range: (_, __, most) => [0, this.#found.total_bytes ?? (most || GIB)] },
      },
      axes: [
        { stroke: text, grid: line, ticks: { ...line, size: 5 }, gap: 3, space: 60, size: () => this.#height() - HEIGHT + AXIS, values: (_, at) => this.#times(at) },
        { stroke: text, grid: line, ticks: { show: false }, size: LEFT, incrs: TICKS, values: (_, at) => at.map(size) },
      ],
      series: [{}, ...areas, { paths: stepped, points: { show: false }, width: 1, stroke: () => this.colour("var(--text)") }],
      hooks: { draw: [(plot) => this.#strips(plot)], setCursor: [(plot) => pointed(this.#at(plot))] },
    }
  }

  #times(at: number[]): string[] {
    const days = this.#found.to_s - this.#found.from_s > 2 * DAY_S
    const shape: Intl.DateTimeFormatOptions = days ? { weekday: "short", day: "numeric" } : { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }
    return at.map((s) => new Date(s * 1000).toLocaleString(undefined, shape))
  }

  #at(plot: uPlot): MemoryBucket | null {
    const { left } = plot.cursor
    if (left === undefined || left < 0) return null
    const s = plot.posToVal(left, "x")
    return this.#found.buckets.find((bucket) => bucket.at_s <= s && s < bucket.at_s + this.#found.step_s) ?? null
  }

  /** Under the times: when a model was busy, the paler the less of that time. */
  #strips(plot: uPlot): void {
    const { ctx } = plot
    const dots = uPlot.pxRatio
    const x = (s: number) => Math.round(plot.valToPos(s, "x", true))
    let top = plot.bbox.top + plot.bbox.height + AXIS * dots
    ctx.save()
    ctx.font = `${11 * dots}px system-ui, sans-serif`
    ctx.textAlign = "right"
    ctx.textBaseline = "middle"
    for (const one of strips(this.#layers)) {
      ctx.fillStyle = this.colour("var(--sunk)")
      ctx.fillRect(plot.bbox.left, top, plot.bbox.width, STRIP * dots)
      ctx.fillStyle = this.colour(one.colour)
      for (const bucket of this.#found.buckets) {
        const share = one.busy!(bucket)
        if (!share) continue
        const from = x(bucket.at_s)
        ctx.globalAlpha = PALEST + (1 - PALEST) * share
        ctx.fillRect(from, top, Math.max(2 * dots, x(bucket.at_s + this.#found.step_s) - from), STRIP * dots)
      }
      ctx.globalAlpha = 1
      ctx.fillStyle = this.colour("var(--soft)")
      ctx.fillText("busy", plot.bbox.left - 8 * dots, top + (STRIP / 2) * dots)
      top += (STRIP + GAP) * dots
    }
    ctx.restore()
  }
}
