// Light, dark, or as the system has it; kept in this browser.

const KEPT = "headway_theme"
const NEXT = { system: "light", light: "dark", dark: "system" } as const
type Name = keyof typeof NEXT

class Theme {
  name = $state<Name>((localStorage.getItem(KEPT) as Name | null) ?? "system")

  constructor() {
    this.#show()
  }

  next(): void {
    this.name = NEXT[this.name] ?? "system"
    localStorage.setItem(KEPT, this.name)
    this.#show()
  }

  #show(): void {
    document.documentElement.dataset["theme"] = this.name
  }
}

export const theme = new Theme()
