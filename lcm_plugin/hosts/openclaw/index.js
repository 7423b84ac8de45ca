// lcm as OpenClaw's context engine, written by `lcm install openclaw`. All rules are in the process that this starts.
__CLIENT__
const { command, tools, environment } = __SETTINGS__

async function answered(method, params) {
  const answer = await ask(method, params)
  if (!answer) throw new Error(`lcm did not answer ${method}: run lcm doctor --host openclaw`)
  return answer
}

const laneOf = ({ sessionKey, sessionId }) => ({ key: sessionKey ?? `agent:openclaw:${sessionId}`, id: sessionId ?? null })

const engine = {
  info: {
    id: "lcm",
    name: "Lossless Context Management",
    ownsCompaction: true,
    turnMaintenanceMode: "background",
    transcriptSemantics: {
      currentTurnFence: "before-current-turn-entry-v1",
      turnAdvancementIdempotency: "atomic-idempotent-v1",
    },
  },
  // A turn is stored as a whole when it is committed.
  ingest: async () => ({ ingested: false }),
  assemble: async (turn) => {
    const { messages, tokenBudget, model, prompt } = turn
    const params = { session: laneOf(turn), messages, budget: tokenBudget ?? null, model: model ?? null, prompt: prompt ?? "" }
    const { plan, tokens } = await answered("openclaw.assemble", params)
    return { messages: plan.map((one) => (typeof one === "number" ? messages[one] : one)), estimatedTokens: tokens }
  },
  commitTurn: async (turn) => {
    const { advancementKey: key, messages, isHeartbeat } = turn
    return answered("openclaw.commit", { session: laneOf(turn), key, messages, heartbeat: isHeartbeat ?? false })
  },
  // OpenClaw waits three minutes. Without an answer it is to go on with the turn: a context is made within its budget.
  compact: async (call) => await ask("openclaw.compact", {
    session: laneOf(call), budget: call.tokenBudget ?? null, force: call.force ?? false, focus: call.customInstructions ?? "",
  }, Math.max(120_000, PATIENCE)) ?? { ok: true, compacted: false, reason: "already under target: lcm did not answer" },
  dispose: async () => {},
}

export default {
  id: "lcm",
  name: "Lossless Context Management",
  description: "Keeps every turn word for word, and makes each context of it.",
  register(api) {
    api.registerContextEngine("lcm", () => engine)
    for (const tool of tools) api.registerTool((where) => ({
      ...tool,
      label: tool.name,
      execute: async (_call, given) => {
        const answer = await ask("call_tool", { session: laneOf(where), name: tool.name, arguments: given })
        return { content: [{ type: "text", text: JSON.stringify(answer ?? { error: "lcm does not answer" }) }], details: {} }
      },
    }), { name: tool.name })
    api.registerCommand({
      name: "lcm",
      description: "lcm: what is stored, and what may be done with it (/lcm help)",
      acceptsArgs: true,
      handler: async (where) => {
        const text = `/lcm ${where.args ?? ""}`.trim()
        const answer = await ask("command", { session: laneOf(where), text })
        return { text: answer?.text ?? "The process of lcm does not answer: run lcm doctor --host openclaw." }
      },
    })
  },
}
