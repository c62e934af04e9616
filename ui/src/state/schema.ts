// Forms are made from the API's own document: a field that it gets is a field that they get.

import type { Fields } from "../parts/SchemaForm.svelte"
import { read } from "./ask"

interface Document {
  components: { schemas: Record<string, { properties: Fields }> }
}

let known: Document | null = null

/** Fields of a body, in the order of its document, or only those named. Throws TypeError when nobody answers. */
export async function fieldsOf(body: string, names: string[]): Promise<Fields> {
  known ??= await read<Document>("openapi.json")
  if (!known) throw new TypeError("nobody answers")
  const all = known.components.schemas[body]?.properties ?? {}
  return Object.fromEntries(names.filter((name) => name in all).map((name) => [name, all[name]!]))
}
