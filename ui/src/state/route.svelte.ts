// Where one is: `#/jobs/j7?state=queued`. The address can be kept and sent.

export const TABS = ["now", "jobs", "history", "help"] as const
export type Tab = (typeof TABS)[number]

class Route {
  tab = $state<Tab>("now")
  id = $state<string | null>(null)
  query = $state.raw(new URLSearchParams())

  constructor() {
    this.#read()
    addEventListener("hashchange", () => this.#read())
  }

  #read(): void {
    const [path = "", query] = location.hash.replace(/^#\/?/, "").split("?")
    const [tab, id] = path.split("/")
    this.tab = TABS.find((one) => one === tab) ?? "now"
    this.id = id ? decoded(id) : null
    this.query = new URLSearchParams(query)
  }

  /** Another filter, in place: the way back does not lead through every letter of a search. */
  filter(name: string, value: string): void {
    const query = new URLSearchParams(this.query)
    if (value) query.set(name, value)
    else query.delete(name)
    const words = query.toString()
    history.replaceState(null, "", `${location.hash.split("?")[0] || "#/now"}${words ? `?${words}` : ""}`)
    this.#read()
  }
}

/** An address may be typed by hand: what is no encoding is taken as it is. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

export const route = new Route()
