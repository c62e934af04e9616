// What the daemon could not read, in its own words: a page that only shows less would say something untrue.

import type { Problem } from "../api"

class Trouble {
  words = $state("")
  #of = new Map<string, string>() // the path without its query -> what is wrong with it

  /** An answer came: `problem` is null where it was a good one. A refusal is no trouble of the daemon's. */
  heard(path: string, problem: Problem | null): void {
    const what = path.split("?")[0]!
    if (problem && problem.status >= 500) this.#of.set(what, problem.detail)
    else if (!this.#of.delete(what)) return
    this.words = [...new Set(this.#of.values())].join(" ")
  }
}

export const trouble = new Trouble()
