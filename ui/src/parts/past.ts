// What the tables of the past show: where it is asked for, its columns, and what of it is wrong.

import type { EventLine, JobRow, RequestRow, SwapRow } from "../api"
import type { Source } from "../state/pages.svelte"
import { clock, duration, plain } from "../words"

export interface Column<T> {
  head: string
  /** For people. */
  text: (row: T) => string
  /** For a file, where that is another value. */
  value?: (row: T) => unknown
  /** A click shows only those of the same one. */
  of?: boolean
  href?: (row: T) => string
  number?: boolean
}

export interface View<T> {
  name: string
  title: string
  wrongs: string
  none: string
  /** Where nothing was left out, and still there is none. */
  never: string
  source: (wrong: boolean, of: string) => Source<T>
  columns: Column<T>[]
  wrong: (row: T) => boolean
}

const took = (seconds: number | null | undefined) => (seconds === null || seconds === undefined ? "" : seconds < 0.05 ? "under 0.1 s" : duration(seconds))
const iso = (wallS: number | null | undefined) => (wallS === null || wallS === undefined ? null : new Date(wallS * 1000).toISOString())
const when = (wallS: number | null | undefined) => (wallS === null || wallS === undefined ? "" : clock(wallS))
const text = (value: unknown) => (typeof value === "string" || typeof value === "number" ? String(value) : "")
const number = (value: unknown) => (typeof value === "number" ? value : null)

function address(path: string, query: Record<string, string | string[] | false>): string {
  const words = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value) for (const one of [value].flat()) words.append(name, one)
  return words.size ? `${path}?${words}` : path
}

const doc = (row: RequestRow) => row.doc ?? {}
const end = (row: RequestRow) => text(doc(row)["code"]) || text(doc(row)["ended"])

export const REQUESTS: View<RequestRow> = {
  name: "requests",
  title: "Requests",
  wrongs: "only those that were not answered well",
  none: "No request is like that.",
  never: "No request has come yet.",
  source: (wrong, of) => ({ url: address("api/v1/requests", { failed: wrong && "true", service: of }), by: "id", key: (row) => row.id! }),
  wrong: (row) => row.failed === true,
  columns: [
    { head: "time", text: (row) => when(row.started), value: (row) => iso(row.started) },
    { head: "model server", text: (row) => row.service ?? "", of: true },
    { head: "model", text: (row) => text(doc(row)["model"]) },
    { head: "client", text: (row) => `${text(doc(row)["client"])}${row.class === "background" ? ", background" : ""}` },
    { head: "waited", text: (row) => (row.waited_s ? took(row.waited_s) : ""), value: (row) => row.waited_s, number: true },
    { head: "took", text: (row) => took(number(doc(row)["took_s"])), value: (row) => number(doc(row)["took_s"]), number: true },
    { head: "status", text: (row) => `${row.status || "none"}${row.failed ? ` ${plain(end(row))}` : ""}`, value: (row) => row.status },
    { head: "tokens", text: (row) => text(doc(row)["output_tokens"]), value: (row) => number(doc(row)["output_tokens"]), number: true },
  ],
}

export const SWAPS: View<SwapRow> = {
  name: "swaps",
  title: "Swaps",
  wrongs: "only those that failed",
  none: "No model server was moved like that.",
  never: "No model server has been moved yet.",
  source: (wrong, of) => ({ url: address("api/v1/swaps", { failed: wrong && "true", service: of }), by: "id", key: (row) => row.id }),
  wrong: (row) => row.failed,
  columns: [
    { head: "time", text: (row) => when(row.wall_s), value: (row) => iso(row.wall_s) },
    { head: "model server", text: (row) => row.service ?? "", of: true },
    { head: "move", text: (row) => `${row.failed ? "failed: " : ""}${row.source ?? "unknown"} to ${row.to ?? "unknown"}` },
    { head: "took", text: (row) => took(row.took_s), value: (row) => row.took_s, number: true },
    { head: "why", text: (row) => row.why },
  ],
}

const BAD_ENDS = ["revoked", "lapsed", "waited_out"]
const fact = (row: EventLine, name: string) => row.facts[name]

export const LEASES: View<EventLine> = {
  name: "leases",
  title: "Leases that are over",
  wrongs: "only those that were taken away, lapsed or never granted",
  none: "No lease ended like that.",
  never: "No lease has ended yet.",
  source: (_, of) => ({ url: address("api/v1/history", { code: ["lease.ended", "claim.ended"], target: of }), by: "id", key: (row) => row.id }),
  wrong: (row) => BAD_ENDS.includes(text(fact(row, "how"))),
  columns: [
    { head: "time", text: (row) => when(row.wall_s), value: (row) => row.time },
    { head: "id", text: (row) => row.holder ?? "", of: true },
    { head: "name", text: (row) => text(fact(row, "name")) },
    { head: "by", text: (row) => text(fact(row, "by")) },
    { head: "held", text: (row) => took(number(fact(row, "held_s"))), value: (row) => number(fact(row, "held_s")), number: true },
    { head: "how it ended", text: (row) => plain(text(fact(row, "how"))) },
    { head: "what was said", text: (row) => row.sentence },
  ],
}

export const JOBS: View<JobRow> = {
  name: "jobs",
  title: "Jobs that are over",
  wrongs: "only those that failed or were lost",
  none: "No job ended like that.",
  never: "No job has ended yet.",
  source: (wrong, of) => ({
    url: address("api/v1/jobs", { state: wrong ? ["failed", "lost"] : ["done", "failed", "cancelled", "lost"], select: of && `name=${of}` }),
    by: "cursor",
    key: (row) => row.id,
  }),
  wrong: (row) => row.state === "failed" || row.state === "lost",
  columns: [
    { head: "job", text: (row) => row.id, href: (row) => `#/jobs/${encodeURIComponent(row.id)}` },
    { head: "name", text: (row) => row.name, of: true },
    { head: "state", text: (row) => row.state },
    { head: "exit code", text: (row) => text(row.exit_code), value: (row) => row.exit_code, number: true },
    { head: "ran", text: (row) => took(row.ran_s), value: (row) => row.ran_s, number: true },
    { head: "ended", text: (row) => (row.ended_s === null ? "" : `${duration(row.ended_s)} ago`), value: (row) => row.ended_s },
    { head: "why", text: (row) => row.why },
  ],
}
