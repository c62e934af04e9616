// The list of all jobs: read in pages, kept as the stream tells, read again where the order or the numbers change.

import type { JobPage, JobRow } from "../api"
import { ask, type Answer } from "./ask"
import { board } from "./board.svelte"

const PAGE = 500
const AGAIN_MS = 1000 // between two looks at the list

export interface Filter {
  states: string[]
  words: string
  ended: boolean
}

class Jobs {
  rows = $state.raw<JobRow[]>([])
  next = $state<string | null>(null)
  loaded = $state(false)
  /** Why there is no such list: words that select nothing that is known. */
  refused = $state("")
  /** The order's mark when the rows were read: a move is done in that order, or refused. */
  mark: string | null = null
  /** While rows are dragged nothing is put elsewhere. */
  still = false

  #filter: Filter = { states: [], words: "", ended: false }
  #pages = 1
  #looks = 0
  #lastMs = -AGAIN_MS
  #timer: ReturnType<typeof setTimeout> | undefined

  show(filter: Filter): void {
    this.#filter = filter
    this.#pages = 1
    void this.look()
  }

  more(): void {
    this.#pages += 1
    void this.look()
  }

  /** Read them again, soon: many changes are one look. */
  again(): void {
    clearTimeout(this.#timer)
    const waitMs = this.still ? AGAIN_MS : Math.max(0, this.#lastMs + AGAIN_MS - performance.now())
    this.#timer = setTimeout(() => (this.still ? this.again() : void this.look()), waitMs)
  }

  async look(): Promise<void> {
    const look = ++this.#looks
    this.#lastMs = performance.now()
    const mark = board.head?.order ?? null
    const rows: JobRow[] = []
    let next: string | null = null
    for (let page = 0; page < this.#pages && (page === 0 || next); page++) {
      const answer: Answer<JobPage> | null = await ask<JobPage>(`api/v1/jobs?${this.#query(next)}`)
      if (look !== this.#looks) return
      if (answer?.status === 422 && !answer.ok) this.refused = answer.body?.detail ?? ""
      if (!answer?.ok) return
      const found: JobPage = answer.body
      rows.push(...board.keep(found.jobs))
      next = found.next
    }
    if (look !== this.#looks) return
    this.refused = ""
    this.rows = rows
    this.next = next
    this.mark = mark
    this.loaded = true
  }

  /** Each row as it was last told; one that is gone stays until the list is read again. */
  refresh(): void {
    const rows = this.rows.map((row) => board.told.get(row.id) ?? row)
    if (rows.some((row, n) => row !== this.rows[n])) this.rows = rows
  }

  #query(after: string | null): string {
    const { states, words, ended } = this.#filter
    const query = new URLSearchParams({ limit: String(PAGE) })
    for (const state of states) query.append("state", state)
    if (ended && !states.length) query.set("ended", "true")
    const word = words.trim()
    if (word) query.set("select", word.includes("=") ? word : `name=*${word}*`)
    if (after) query.set("after", after)
    return query.toString()
  }
}

export const jobs = new Jobs()
