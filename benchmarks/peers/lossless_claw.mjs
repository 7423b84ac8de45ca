// Does the work of peer_work.py with a checkout of lossless-claw and prints what came of it, as JSON.
//
//   cd CHECKOUT && node --import tsx lossless_claw.mjs WORK.json
//
// Needs Node 22 or newer and, in the checkout, `npm install` and `tsx`. Settings are the peer's own defaults. A turn is
// stored, compacted when its own rule says so, and assembled before each model call, as the peer's host does. Summaries
// are returned at once, some 1,200 tokens each. What a turn takes back is a matter of its host's transcript, which is not
// here: such turns are left out.

import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const here = pathToFileURL(join(process.cwd(), "src/")).href;
const { resolveLcmConfig } = await import(here + "db/config.ts");
const { createLcmDatabaseConnection, closeLcmConnection } = await import(here + "db/connection.ts");
const { LcmContextEngine } = await import(here + "engine.ts");
const { createLcmGrepTool } = await import(here + "tools/lcm-grep-tool.ts");

const quiet = { info() {}, warn() {}, error() {}, debug() {} };

function dependencies(config, write) {
  return {
    config,
    complete: async () => ({ content: [{ type: "text", text: write() }] }),
    callGateway: async () => ({}),
    resolveModel: () => ({ provider: "openai", model: "model" }),
    parseAgentSessionKey: (key) => ({ agentId: "main", suffix: key.split(":").slice(2).join(":") }),
    isSubagentSessionKey: () => false,
    normalizeAgentId: (id) => id || "main",
    buildSubagentSystemPrompt: () => "",
    readLatestAssistantReply: () => undefined,
    resolveAgentDir: () => tmpdir(),
    resolveSessionIdFromSessionKey: async () => undefined,
    resolveSessionTranscriptFile: async () => undefined,
    agentLaneSubagent: "subagent",
    log: quiet,
  };
}

function open(write) {
  const folder = mkdtempSync(join(tmpdir(), "peer-"));
  const config = { ...resolveLcmConfig({}, {}), databasePath: join(folder, "lcm.db"), largeFilesDir: join(folder, "files") };
  const needs = dependencies(config, write);
  const db = createLcmDatabaseConnection(config.databasePath);
  const engine = new LcmContextEngine(needs, db);
  return { folder, config, needs, db, engine };
}

function close({ folder }) {
  closeLcmConnection();
  rmSync(folder, { recursive: true, force: true });
}

// The shapes that OpenClaw hands to a context engine, and back.
function asAgentMessage(message, names) {
  if (message.role === "tool") {
    const toolName = names.get(message.tool_call_id) ?? "tool";
    return { role: "toolResult", toolCallId: message.tool_call_id, toolName, content: blocks(message.content), isError: false };
  }
  if (message.role !== "assistant") {
    return { role: "user", content: typeof message.content === "string" ? message.content : blocks(message.content) };
  }
  const calls = (message.tool_calls ?? []).map((call) => {
    names.set(call.id, call.function.name);
    return { type: "toolCall", id: call.id, name: call.function.name, arguments: parsed(call.function.arguments) };
  });
  return { role: "assistant", content: [...blocks(message.content), ...calls] };
}

function blocks(content) {
  if (!Array.isArray(content)) return [{ type: "text", text: content ?? "" }];
  return content.map((block) => block.type === "text" ? block
    : { type: "image", mimeType: "image/png", data: block.image_url.url.split(",")[1] });
}

function parsed(text) {
  try { return JSON.parse(text); } catch { return {}; }
}

function asOpenAi(message) {
  const list = Array.isArray(message.content) ? message.content : [{ type: "text", text: message.content }];
  const content = list.filter((block) => block.type === "text").map((block) => block.text).join("\n");
  if (message.role === "toolResult") return { role: "tool", tool_call_id: message.toolCallId, content };
  const calls = list.filter((block) => block.type === "toolCall").map((block) => (
    { id: block.id, type: "function", function: { name: block.name, arguments: JSON.stringify(block.arguments) } }));
  return { role: message.role, content, ...(calls.length ? { tool_calls: calls } : {}) };
}

const cpuMs = () => { const used = process.cpuUsage(); return (used.user + used.system) / 1000; };
const where = { sessionId: "run", sessionKey: "agent:main:main" };

// What a question's request holds: the history with the question handed over as the host does, and what is added to it.
async function asked(engine, live, prompt, tokenBudget) {
  const context = await engine.assemble({ ...where, messages: live, tokenBudget, prompt, availableTools: new Set() });
  return { context, text: [context.systemPromptAddition ?? "", ...context.messages.map((one) => asOpenAi(one).content)].join("\n") };
}

function grepOf(opened) {
  return createLcmGrepTool({ deps: opened.needs, lcm: opened.engine, ...where });
}

async function shown(tool, question) {
  const answer = await tool.execute("call", { pattern: question, mode: "full_text", scope: "messages", sort: "relevance", limit: 10 });
  return answer.content.map((block) => block.text).join("\n");
}

async function play(work) {
  const opened = open(() => work.summary);
  const { engine, db, config } = opened;
  const names = new Map();
  const assembled = [];
  let messages = 0, content = 0, largest = 0, live = [];
  const began = cpuMs();
  for (const turn of work.turns) {
    if (turn.taken_back) continue;
    for (const message of turn.messages) {
      const own = asAgentMessage(message, names);
      live.push(own);
      content += Buffer.byteLength(JSON.stringify(message));
      messages += 1;
      await engine.ingestBatch({ ...where, messages: [own] });
      if (message.role === "assistant") continue;
      const start = cpuMs();
      const context = await engine.assemble({ ...where, messages: live, tokenBudget: work.window });
      assembled.push(cpuMs() - start);
      live = context.messages;
      largest = Math.max(largest, context.estimatedTokens);
    }
    await engine.compact({ ...where, sessionFile: join(opened.folder, "none.jsonl"), tokenBudget: work.window });
  }
  const cpu = cpuMs() - began;
  const { n: rows } = db.prepare("SELECT count(*) AS n FROM messages").get();
  db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  const bytes = statSync(config.databasePath).size;
  const last = assembled.slice(-200).sort((a, b) => a - b);
  const tool = grepOf(opened);
  const seen = [];
  for (const canary of work.canaries) {
    const { text } = await asked(engine, live, canary.question, work.window);
    const found = await shown(tool, canary.question);
    const words = [canary.right, canary.wrong];
    seen.push([...words.map((one) => one ? text.lastIndexOf(one) : -1), ...words.map((one) => Boolean(one) && found.includes(one))]);
  }
  const result = {
    messages, rows, cpu_ms_per_message: cpu / messages, assemble_ms: last[last.length >> 1],
    largest, bytes_per_byte: bytes / content, seen,
  };
  close(opened);
  return result;
}

const FAULTS = {
  "summaries are empty": () => "",
  "the summary model fails": () => { throw new Error("no model"); },
};

// What is handed over after each odd input and a compaction, or the exception's text.
async function odd(work) {
  const found = {};
  for (const [name, messages] of Object.entries(work.odd)) {
    const opened = open(FAULTS[name] ?? (() => work.summary));
    const { engine } = opened;
    const names = new Map();
    const tokenBudget = work.small_window;
    try {
      let live = [];
      for (const message of [...messages, ...work.filling]) {
        const own = asAgentMessage(message, names);
        live.push(own);
        await engine.ingestBatch({ ...where, messages: [own] });
        if (message.role === "assistant") {
          await engine.compact({ ...where, sessionFile: join(opened.folder, "none.jsonl"), tokenBudget });
        } else {
          live = (await engine.assemble({ ...where, messages: live, tokenBudget })).messages;
        }
      }
      const { context } = await asked(engine, live, work.newest, tokenBudget);
      found[name] = [...context.messages.map(asOpenAi), { role: "user", content: work.newest }];
    } catch (error) {
      found[name] = String(error);
    }
    close(opened);
  }
  return found;
}

async function recall(work) {
  const all = [];
  for (const chat of work.chats) {
    const opened = open(() => work.summary);
    const names = new Map();
    for (const message of chat.messages) {
      await opened.engine.ingestBatch({ ...where, messages: [asAgentMessage(message, names)] });
    }
    const tool = grepOf(opened);
    const contents = new Map(opened.db.prepare("SELECT message_id AS id, content FROM messages").all().map((row) => [row.id, row.content]));
    const answers = [];
    for (const question of chat.questions) {
      const text = await shown(tool, question);
      answers.push([...text.matchAll(/\[msg#(\d+)\]/g)].map((match) => contents.get(Number(match[1]))).slice(0, 10));
    }
    all.push(answers);
    close(opened);
  }
  return all;
}

const work = JSON.parse(readFileSync(process.argv[2], "utf8"));
const result = JSON.stringify({ play: await play(work), recall: await recall(work), odd: await odd(work) });
process.stdout.write(`${result}\n`, () => process.exit(0));
