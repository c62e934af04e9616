import { readFile, unlink, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { svelte } from "@sveltejs/vite-plugin-svelte"
import { defineConfig, type Plugin } from "vite"

/** Everything in the one HTML file: the daemon serves it, and its policy allows these very texts and nothing else. */
function oneFile(): Plugin {
  return {
    name: "one-file",
    async writeBundle({ dir = "." }, bundle) {
      const file = join(dir, "index.html")
      let html = await readFile(file, "utf8")
      for (const [name, part] of Object.entries(bundle)) {
        if (part.type === "chunk") {
          const code = part.code.replaceAll("</script", "<\\/script").trim()
          html = html.replace(/\s*<script [^>]*src="[^"]*"><\/script>/, "")
          html = html.replace("</body>", () => `<script type="module">${code}</script>\n</body>`)
        } else if (name.endsWith(".css")) {
          html = html.replace(/<link rel="stylesheet"[^>]*>/, () => `<style>${String(part.source).trim()}</style>`)
        } else continue
        await unlink(join(dir, name))
      }
      if (/<(script|link|img)[^>]* (src|href)="(?!data:)/.test(html)) throw new Error("the page loads something from elsewhere")
      await writeFile(file, html)
    },
  }
}

export default defineConfig({
  plugins: [svelte(), oneFile()],
  base: "./",
  build: {
    outDir: "../src/headway/web",
    emptyOutDir: true,
    assetsDir: ".",
    target: ["chrome123", "firefox120", "safari17.5"], // the first with light-dark() in CSS
    modulePreload: false,
    cssCodeSplit: false,
    license: { fileName: "THIRD-PARTY.md" },
  },
})
