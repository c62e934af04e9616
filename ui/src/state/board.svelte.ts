// What the daemon says, live: one stream, the snapshot first, then batches that end with `board.updated`.

import type { DeviceRow, JobPage, JobRow, LeaseRow, Overview, ServiceRow } from "../api"
import { ask, read } from "./ask"

type Rows = "services" | "running" | "queued" | "leases" | "gate" | "host"
export type Head = Omit<Overview, Rows>
/** `quiet`: the connection is there, and nothing comes by it. */
export type Link = "connecting" | "connected" | "quiet" | "away" | "denied"
type Stamped = JobRow | ServiceRow | LeaseRow | DeviceRow | Head

const RETRY_MS = 2000
const TICK_MS = 1000
const HIDDEN_MS = 5000
const QUIET_MS = 5000 // a daemon that lives tells its board at least once a second
const QUEUE_SHOWN = 50
const REST = ["held", "queued", "done", "failed", "cancelled", "lost"] // of a job that has no process and no move

/** When a row came, by this machine's clock: ages in it count from there. */
const cameMs = new WeakMap<object, number>()

function came<T extends Stamped>(row: T): T {
  cameMs.set(row, performance.now())
  return row
}

class Board {
  head = $state.raw<Head | null>(null)
  services = $state.raw<ServiceRow[]>([])
  leases = $state.raw<LeaseRow[]>([])
  running = $state.raw<JobRow[]>([])
  queued = $state.raw<JobRow[]>([])
  gate = $state.raw<string | null>(null)
  denied = $state(false)
  nowMs = $state(performance.now())
  /** When the last news came. */
  heardMs = $state(performance.now())
  #open = $state(false)
  link: Link = $derived.by(() => {
    if (this.denied) return "denied"
    if (!this.head) return "connecting"
    if (!this.#open) return "away"
    return this.nowMs - this.heardMs > QUIET_MS ? "quiet" : "connected"
  })
  live = $derived(this.link === "connected")
  /** Every job that was told of since the last snapshot, for whoever shows lists of them. */
  told = new Map<string, JobRow>()
  /** Counts the batches: a list that shows `told` looks at it again. */
  batch = $state(0)

  #pending = new Map<string, { kind: string; row: unknown }>()
  #source: EventSource | null = null
  #leaving: ReturnType<typeof setTimeout> | undefined
  #looks = 0
  #life = ""

  /** Until when ages count on: what nobody tells of any more stays as it was told. */
  get untilMs(): number {
    return Math.min(this.nowMs, this.heardMs + QUIET_MS)
  }

  /** Seconds that a row told of, counted on since it came. */
  since(row: object, seconds: number | null): number | null {
    return seconds === null ? null : seconds + Math.max(0, this.untilMs - (cameMs.get(row) ?? this.untilMs)) / 1000
  }

  start(): void {
    setInterval(() => {
      if (performance.now() - this.nowMs > TICK_MS * 0.9) this.nowMs = performance.now() // else a batch just did so
    }, TICK_MS)
    this.open()
    document.addEventListener("visibilitychange", () => this.#seen())
  }

  /** A tab that nobody looks at lets its stream go: a browser has six connections for all of them. */
  #seen(): void {
    clearTimeout(this.#leaving)
    if (!document.hidden) {
      if (!this.#source || this.#source.readyState === EventSource.CLOSED) this.open()
      return
    }
    this.#leaving = setTimeout(() => {
      this.#source?.close()
      this.#open = false
    }, HIDDEN_MS)
  }

  open(): void {
    this.#source?.close()
    const source = (this.#source = new EventSource("api/v1/events"))
    source.onerror = () => {
      this.#open = false
      if (source.readyState === EventSource.CLOSED && source === this.#source) void this.#again()
    }
    source.addEventListener("snapshot", (event) => this.#snapshot(event as MessageEvent<string>))
    for (const kind of ["job", "service", "device", "lease", "claim"]) {
      source.addEventListener(`${kind}.updated`, (event) => {
        const row = JSON.parse((event as MessageEvent<string>).data) as { id: string }
        this.#pending.set(row.id, { kind, row })
      })
    }
    source.addEventListener("holder.gone", (event) => {
      const { id } = JSON.parse((event as MessageEvent<string>).data) as { id: string }
      this.#pending.set(id, { kind: "gone", row: null })
    })
    source.addEventListener("board.updated", (event) => this.#batch(event as MessageEvent<string>))
  }

  /** The browser gave up on a stream that was refused: it is asked why, and tried again. */
  async #again(): Promise<void> {
    this.denied = (await ask("api/v1/status?queued=0"))?.status === 401
    if (!this.denied) setTimeout(() => this.open(), RETRY_MS)
  }

  #alive(event: MessageEvent<string>): void {
    this.#open = true
    this.denied = false
    this.#life = event.lastEventId.split(".")[0] ?? ""
    this.nowMs = this.heardMs = performance.now()
    this.batch += 1
  }

  get life(): string {
    return this.#life
  }

  #snapshot(event: MessageEvent<string>): void {
    const { services, running, queued, leases, gate, host: _, ...head } = JSON.parse(event.data) as Overview
    this.#pending.clear()
    this.told.clear()
    for (const row of [...services, ...leases, ...head.devices]) came(row)
    for (const row of [...running, ...queued]) this.told.set(row.id, came(row))
    Object.assign(this, { services, running, queued, leases, gate })
    this.head = came(head)
    this.#alive(event)
  }

  #batch(event: MessageEvent<string>): void {
    const head = came(JSON.parse(event.data) as Head)
    for (const row of head.devices) came(row)
    const changed = this.#pending
    this.#pending = new Map()
    const of = <T>(...kinds: string[]) =>
      [...changed.values()].filter((one) => kinds.includes(one.kind)).map((one) => came(one.row as Stamped)) as T[]
    const jobs = of<JobRow>("job")
    for (const row of jobs) this.told.set(row.id, row)
    for (const [id, one] of changed) if (one.kind === "gone") this.told.delete(id)
    const gone = (row: { id: string }) => changed.get(row.id)?.kind === "gone"
    this.services = merged(this.services, of<ServiceRow>("service"), gone)
    this.leases = merged(this.leases, of<LeaseRow>("lease", "claim"), (row) => gone(row) || row.ended !== null)
    this.running = merged(this.running, jobs, (row) => gone(row) || REST.includes(row.state))
    this.queued = this.queued.map((row) => this.told.get(row.id) ?? row).filter((row) => row.state === "queued")
    const reordered = head.order !== this.head?.order
    this.head = head
    this.#alive(event)
    if (reordered) void this.#look()
  }

  /** The line has another order: its first ones are read again, in that order. */
  async #look(): Promise<void> {
    const look = ++this.#looks
    const page = await read<JobPage>(`api/v1/queue?limit=${QUEUE_SHOWN}`)
    if (!page) return
    const { jobs } = page
    if (look !== this.#looks) return // a later look knows better, whichever answer comes first
    for (const row of jobs) this.told.set(row.id, came(row))
    this.queued = jobs
  }

  /** Rows that somebody else read, so that their ages count on. */
  keep(jobs: JobRow[]): JobRow[] {
    for (const row of jobs) this.told.set(row.id, came(row))
    return jobs
  }
}

/** Those that were known, each as it is now, then the new ones; without those of which `gone` is true. */
function merged<T extends { id: string }>(known: T[], changed: T[], gone: (row: T) => boolean): T[] {
  const rows = new Map([...known, ...changed].map((row) => [row.id, row]))
  return [...rows.values()].filter((row) => !gone(row))
}

export const board = new Board()
