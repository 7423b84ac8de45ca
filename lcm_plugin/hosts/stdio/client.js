// The process of lcm, and what is asked of it: JSON lines over its stdin and stdout.
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"

const PATIENCE = Number(process.env.PLUGIN_TIMEOUT_OF_LCM_MS) || 5000
const waiting = new Map()
let child, calls = 0

function stop() {
  child = undefined
  for (const done of [...waiting.values()]) done()
}

function start() {
  const env = { ...process.env, ...environment }
  const started = spawn(command[0], command.slice(1), { env, stdio: ["pipe", "pipe", "ignore"], windowsHide: true })
  for (const one of [started, started.stdin]) one.on("error", () => child === started && stop())
  started.on("exit", () => child === started && stop())
  createInterface({ input: started.stdout }).on("line", (line) => {
    const answer = JSON.parse(line)
    waiting.get(answer.id)?.(answer.result)
  })
  child = started
}

// The answer; undefined when there is none in time: the turn then goes on as without lcm.
const ask = (method, params, patience = PATIENCE) => new Promise((resolve) => {
  const id = ++calls
  const done = (result) => (clearTimeout(timer), waiting.delete(id), resolve(result))
  const timer = setTimeout(done, patience)
  waiting.set(id, done)
  try {
    if (!child) start()
    child.stdin.write(JSON.stringify({ id, method, params }) + "\n")
  } catch { done() }
})
