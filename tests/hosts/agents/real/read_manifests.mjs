// Reads manifests with OpenClaw's own loader and judges settings by its own validator of schemas:
//   node read_manifests.mjs OPENCLAW_PACKAGE < {"folders": [{"folder", "settings": [{…}, …]}, …]} > [{"manifest", "errors"}, …]
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { pathToFileURL } from "node:url"

const dist = join(process.argv[2], "dist")

// Its files have names with a hash, and short names for what they export.
async function exported(file, name) {
  for (const found of readdirSync(dist).filter((one) => one.startsWith(`${file}-`) && one.endsWith(".mjs"))) {
    const alias = new RegExp(`\\b${name} as (\\w+)`).exec(readFileSync(join(dist, found), "utf8"))
    if (alias) return (await import(pathToFileURL(join(dist, found))))[alias[1]]
  }
  throw new Error(`OpenClaw exports no ${name} from ${file}`)
}

const loadPluginManifest = await exported("manifest", "loadPluginManifest")
const validate = await exported("schema-validator", "validatePluginSchemaValue")
const asked = JSON.parse(readFileSync(0, "utf8"))
const answers = asked.folders.map(({ folder, settings }) => {
  const read = loadPluginManifest(folder)
  if (!read.ok) return { error: read.error }
  const schema = read.manifest.configSchema
  const judged = settings.map((value) => validate({ schema, value }))
  return { manifest: read.manifest, errors: judged.map((one) => (one.ok ? [] : one.errors.map(({ text }) => text))) }
})
process.stdout.write(JSON.stringify(answers))
