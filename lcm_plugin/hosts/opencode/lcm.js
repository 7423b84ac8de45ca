// lcm in opencode, written by `lcm install opencode`. It passes on what happens; all rules are in the process it starts.
__CLIENT__
const { command, tools, environment } = __SETTINGS__

// The directories served in this process, each with the file that serves it: lcm may be installed for a user and in a project.
const served = (globalThis[Symbol.for("lcm.opencode")] ??= new Map())

export const Lcm = async ({ client, directory }) => {
  if (served.has(directory)) return {}
  served.set(directory, import.meta.url)
  const sessions = new Map(), parts = new Map(), summarising = new Set(), known = new Set()
  let limits, last
  const about = (session) => {
    const { title, parentID } = sessions.get(session) ?? {}
    return { session, directory, title: title ?? "", parent: parentID ?? "" }
  }
  const limitOf = async ({ providerID, modelID }) => {
    limits ??= (await client.config.providers()).data.providers
    const limit = limits.find((one) => one.id === providerID)?.models[modelID]?.limit
    return limit?.context ? limit.context - (limit.output ?? 0) : undefined
  }
  const called = async (model) => ({ limit: await limitOf(model), model: model.modelID })
  const isOurs = ({ parts: all }) => all.some((part) => part.synthetic && part.text?.includes("<recalled>"))
  // Quotes of an earlier run of opencode, for a session's first prompt in this one.
  const quotedBefore = async (id) => known.has(id) ? null : (await client.session.messages({ path: { id } })).data?.filter(isOurs) ?? null
  const made = (piece, number, user, answer, session) => {
    const id = `msg_lcm${number}`, at = user.time.created
    const like = piece.role === "user" ? user : { ...user, ...user.model, ...answer, role: "assistant", error: undefined, summary: undefined }
    const own = { sessionID: session, messageID: id }
    return { info: { ...like, id, time: { created: at, completed: at } }, parts: piece.parts.map((part, place) => part.call
      ? { ...own, id: `prt_lcm${place}`, type: "tool", callID: part.call, tool: part.tool, state: {
          status: "completed", input: part.input, output: part.output, title: "", metadata: {}, time: { start: at, end: at } } }
      : { ...own, id: `prt_lcm${place}`, type: "text", text: part.text, synthetic: true }) }
  }
  const safely = (hook) => async (...given) => { try { return await hook(...given) } catch { return undefined } }
  if (!child) start()
  return {
    config: async (config) => {
      config.mcp = { lcm: { type: "local", command: tools, environment, enabled: true }, ...config.mcp }
      config.command = { lcm: { template: "Report this status of lcm in a few lines:", description: "lcm: what is stored" }, ...config.command }
    },
    event: safely(async ({ event: { type, properties: told } }) => {
      if (type === "session.created" || type === "session.updated") sessions.set(told.info.id, told.info)
      if (type === "message.part.updated") {
        const { messageID, id } = told.part
        parts.set(messageID, (parts.get(messageID) ?? new Map()).set(id, told.part))
      }
      if (type === "message.updated" && told.info.role === "assistant" && told.info.time.completed) {
        const listed = [...(parts.get(told.info.id) ?? new Map()).values()].sort((a, b) => (a.id < b.id ? -1 : 1))
        last = ask("opencode.store", { ...about(told.info.sessionID), messages: [{ info: told.info, parts: listed }] })
      }
      if (type === "session.idle") last = (parts.clear(), ask("opencode.idle", about(told.sessionID)))
      if (type === "session.compacted") last = ask("opencode.compacted", about(told.sessionID))
    }),
    "chat.message": safely(async ({ sessionID }, { message, parts: typed }) => {
      const prompt = typed.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text).join("\n")
      const before = { ...await called(message.model), messages: await quotedBefore(sessionID) }
      const text = (await ask("opencode.recall", { ...about(sessionID), ...before, prompt }))?.text
      if (text) typed.push({ id: `${typed.at(-1).id}0`, sessionID, messageID: message.id, type: "text", text, synthetic: true })
    }),
    "command.execute.before": safely(async ({ command: name, sessionID, arguments: rest }, { parts: typed }) => {
      if (name !== "lcm") return
      const answer = await ask("command", { session: `agent:opencode:${sessionID}`, text: `/lcm ${rest}`.trim() })
      typed[0].text += `\n\n${answer?.text ?? "The process of lcm does not answer: run lcm doctor --host opencode."}`
    }),
    "experimental.session.compacting": async ({ sessionID }) => void summarising.add(sessionID),
    "experimental.chat.messages.transform": safely(async (_, { messages }) => {
      const session = messages.at(-1)?.info.sessionID
      if (!session || summarising.delete(session)) return
      const user = messages.findLast((one) => one.info.role === "user").info
      const answer = messages.findLast((one) => one.info.role === "assistant")?.info
      known.add(session)
      const plan = (await ask("opencode.context", { ...about(session), messages, ...await called(user.model) }))?.plan
      if (!plan) return
      const own = new Map(messages.map((one) => [one.info.id, one]))
      messages.splice(0, messages.length, ...plan.map((one, number) => own.get(one) ?? made(one, number, user, answer, session)))
    }),
    dispose: async () => {
      await last
      served.delete(directory)
      if (!child || [...served.values()].includes(import.meta.url)) return
      const ended = new Promise((resolve) => child.once("exit", resolve))
      child.stdin.end()
      child = undefined
      await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 2000))])
    },
  }
}
