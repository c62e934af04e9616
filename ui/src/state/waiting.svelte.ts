// Requests that wait at the gate: asked for while some model server says that some do, at most once a second.

import type { WaitingPage, WaitingRow } from "../api"
import { read } from "./ask"
import { board } from "./board.svelte"

const AGAIN_MS = 1000
const NOBODY: WaitingPage = { requests: [], more: 0 }

class Waiting {
  page = $state.raw<WaitingPage>(NOBODY)
  #cameMs = 0
  #lastMs = -AGAIN_MS
  #looking = false

  of(service: string): WaitingRow[] {
    return this.page.requests.filter((row) => row.service === service)
  }

  /** Seconds of a row, counted on since it came. */
  now(seconds: number): number {
    return seconds + Math.max(0, board.untilMs - this.#cameMs) / 1000
  }

  /** Called with each batch of the stream, and each second. */
  async look(): Promise<void> {
    if (!board.services.some((row) => row.waiting)) {
      if (this.page !== NOBODY) this.page = NOBODY
      return
    }
    if (this.#looking || performance.now() - this.#lastMs < AGAIN_MS) return
    this.#looking = true
    this.#lastMs = performance.now()
    const page = await read<WaitingPage>("api/v1/waiting")
    if (page) {
      this.page = page
      this.#cameMs = performance.now()
    }
    this.#looking = false
  }
}

export const waiting = new Waiting()
