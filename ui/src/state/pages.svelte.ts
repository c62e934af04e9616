// Long lists of the past, the newest first: a page, older ones by the cursor of the API, and what comes meanwhile.

import { ask } from "./ask"

export interface Source<T> {
  /** The address without a page, such as `api/v1/swaps?failed=true`. */
  url: string
  /** How rows are numbered: by a growing id, or (jobs) only by a cursor, the newest first. */
  by: "id" | "cursor"
  key: (row: T) => string | number
  /** Rows of a page, where 100 are too few or too many. */
  page?: number
}

const PAGE = 100
const SAVED_PAGE = 1000
const SAVED_PAGES = 100 // of one file
const AGAIN_MS = 2000

interface Page<T> {
  rows: T[] // the newest first
  older: string | null
}

async function pageOf<T>(by: "id" | "cursor", url: string): Promise<Page<T> | null> {
  const answer = await ask<unknown>(url)
  if (answer?.status === 404) return { rows: [], older: null } // somebody of whom nothing is known
  if (!answer?.ok) return null
  const { body, headers } = answer
  const link = /<\/?([^>]*)>/.exec(headers.get("Link") ?? "")?.[1] ?? null
  return { rows: by === "id" ? (body as T[]).toReversed() : (body as { jobs: T[] }).jobs, older: link }
}

const first = (source: { url: string; by: string }, rows: number) => `${source.url}${source.url.includes("?") ? "&" : "?"}${source.by === "id" ? "last" : "limit"}=${rows}`

/** Each page of all of it, for a file. */
export async function* all<T>(source: Source<T>): AsyncGenerator<T[]> {
  let url: string | null = first(source, SAVED_PAGE)
  for (let n = 0; url && n < SAVED_PAGES; n++) {
    const page: Page<T> | null = await pageOf<T>(source.by, url)
    if (!page) throw new Error("the daemon did not answer")
    yield page.rows
    url = page.older
  }
}

export class Pages<T> {
  rows = $state.raw<T[]>([])
  older = $state<string | null>(null)
  loaded = $state(false)

  #source: Source<T> | null = null
  #shown = 0
  #looking = false
  #lastMs = -AGAIN_MS
  #pages = 0

  /** Begin anew with these rows. */
  show(source: Source<T>): void {
    this.#source = source
    this.#shown += 1
    this.#looking = false
    this.rows = []
    this.older = null
    this.loaded = false
    this.#pages = 0
    this.#lastMs = -AGAIN_MS
    void this.look()
  }

  /** What came since; called with each batch of the stream. */
  async look(): Promise<void> {
    const source = this.#source
    if (!source || this.#looking || performance.now() - this.#lastMs < AGAIN_MS) return
    const newest = this.rows[0]
    if (source.by === "cursor" && this.#pages > 1) return // it would jump under who reads further down
    const since = source.by === "id" && newest !== undefined
    const url = since ? `${source.url}${source.url.includes("?") ? "&" : "?"}after=${source.key(newest)}&limit=${SAVED_PAGE}` : first(source, source.page ?? PAGE)
    await this.#take(url, (page) => {
      if (since) this.rows = page.rows.length ? [...page.rows, ...this.rows] : this.rows
      else {
        this.rows = page.rows
        this.older = page.older
        this.#pages = 1
      }
    })
  }

  async more(): Promise<void> {
    if (!this.older || this.#looking) return
    await this.#take(this.older, (page) => {
      this.rows = [...this.rows, ...page.rows]
      this.older = page.older
      this.#pages += 1
    })
  }

  async #take(url: string, put: (page: Page<T>) => void): Promise<void> {
    const shown = this.#shown
    this.#looking = true
    this.#lastMs = performance.now()
    const page = await pageOf<T>(this.#source!.by, url)
    if (shown !== this.#shown) return // something else is shown by now
    this.#looking = false
    if (!page) return
    put(page)
    this.loaded = true
  }
}

function download(name: string, type: string, text: string): void {
  const link = document.createElement("a")
  link.href = URL.createObjectURL(new Blob([text], { type }))
  link.download = name
  link.click()
  URL.revokeObjectURL(link.href)
}

/** A cell that no spreadsheet takes for a formula: a name may begin with any sign. */
function cell(value: unknown): string {
  const text = String(value ?? "")
  return `"${(typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`
}

export function saveCsv(name: string, heads: string[], rows: unknown[][]): void {
  download(`headway-${name}.csv`, "text/csv", [heads.join(","), ...rows.map((row) => row.map(cell).join(","))].join("\r\n"))
}

export function saveJson(name: string, rows: unknown): void {
  download(`headway-${name}.json`, "application/json", JSON.stringify(rows, null, 1))
}
