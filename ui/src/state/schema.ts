// Forms are made from the API's own document: a field that it gets is a field that they get.

import type { Fields } from "../parts/SchemaForm.svelte"

interface Document {
  components: { schemas: Record<string, { properties: Fields }> }
}

let known: Promise<Document> | null = null

/** Fields of a body, in the order of its document, or only those named. Throws TypeError when nobody answers. */
export async function fieldsOf(body: string, names: string[]): Promise<Fields> {
  known ??= fetch("openapi.json").then((reply) => reply.json() as Promise<Document>)
  known.catch(() => (known = null))
  const all = (await known).components.schemas[body]?.properties ?? {}
  return Object.fromEntries(names.filter((name) => name in all).map((name) => [name, all[name]!]))
}
