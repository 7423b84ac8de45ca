// Plays a corpus through a checkout of lossless-claw and prints what it did, as JSON.
//
//   cd CHECKOUT && node --import tsx lossless_claw.mjs CORPUS.jsonl [QUESTIONS.jsonl]
//
// CORPUS has one turn a line (a list of OpenAI-style messages); QUESTIONS one chat a line:
// {"messages": […], "questions": ["…"]}. Needs Node 22 and, in the checkout, `npm install` and `tsx`. Settings
// are the peer's own defaults. A turn is stored, compacted when its own rule says so, and assembled before each
// model call, as the peer's host does. Summaries are returned at once, some 1,200 tokens each.

import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const here = pathToFileURL(join(process.cwd(), "src/")).href;
const { resolveLcmConfig } = await import(here + "db/config.ts");
const { createLcmDatabaseConnection, closeLcmConnection } = await import(here + "db/connection.ts");
const { LcmContextEngine } = await import(here + "engine.ts");
const { createLcmGrepTool } = await import(here + "tools/lcm-grep-tool.ts");

const WINDOW = 128_000;
const SUMMARY = Array.from({ length: 150 }, (_, number) => `point${number} was settled as planned.`).join(" ");
const quiet = { info() {}, warn() {}, error() {}, debug() {} };

function dependencies(config) {
  return {
    config,
    complete: async () => ({ content: [{ type: "text", text: SUMMARY }] }),
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

function open() {
  const folder = mkdtempSync(join(tmpdir(), "peer-"));
  const config = { ...resolveLcmConfig({}, {}), databasePath: join(folder, "lcm.db"), largeFilesDir: join(folder, "files") };
  const needs = dependencies(config);
  const db = createLcmDatabaseConnection(config.databasePath);
  const engine = new LcmContextEngine(needs, db);
  return { folder, config, needs, db, engine };
}

function close({ folder }) {
  closeLcmConnection();
  rmSync(folder, { recursive: true, force: true });
}

// The shapes that OpenClaw hands to a context engine.
function asAgentMessage(message, names) {
  const text = [{ type: "text", text: message.content ?? "" }];
  if (message.role === "tool") {
    const toolName = names.get(message.tool_call_id) ?? "tool";
    return { role: "toolResult", toolCallId: message.tool_call_id, toolName, content: text, isError: false };
  }
  if (message.role !== "assistant") return { role: "user", content: message.content };
  const calls = (message.tool_calls ?? []).map((call) => {
    names.set(call.id, call.function.name);
    return { type: "toolCall", id: call.id, name: call.function.name, arguments: JSON.parse(call.function.arguments) };
  });
  return { role: "assistant", content: [...text, ...calls] };
}

const cpuMs = () => { const used = process.cpuUsage(); return (used.user + used.system) / 1000; };
const lines = (path) => readFileSync(path, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));

async function play(path) {
  const opened = open();
  const { engine, db, config } = opened;
  const where = { sessionId: "run", sessionKey: "agent:main:main" };
  const names = new Map();
  const assembled = [];
  let messages = 0, content = 0, largest = 0, live = [];
  const turns = lines(path);
  const began = cpuMs();
  for (const turn of turns) {
    for (const message of turn) {
      const own = asAgentMessage(message, names);
      live.push(own);
      content += Buffer.byteLength(JSON.stringify(message));
      messages += 1;
      await engine.ingestBatch({ ...where, messages: [own] });
      if (message.role === "assistant") continue;
      const start = cpuMs();
      const context = await engine.assemble({ ...where, messages: live, tokenBudget: WINDOW });
      assembled.push(cpuMs() - start);
      live = context.messages;
      largest = Math.max(largest, context.estimatedTokens);
    }
    await engine.compact({ ...where, sessionFile: join(opened.folder, "none.jsonl"), tokenBudget: WINDOW });
  }
  const cpu = cpuMs() - began;
  const { n: rows } = db.prepare("SELECT count(*) AS n FROM messages").get();
  db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  const bytes = statSync(config.databasePath).size;
  const last = assembled.slice(-200).sort((a, b) => a - b);
  const result = {
    messages, rows, cpu_ms_per_message: cpu / messages, assemble_ms: last[last.length >> 1],
    largest, bytes_per_byte: bytes / content,
  };
  close(opened);
  return result;
}

async function recall(path) {
  const shown = [];
  for (const chat of lines(path)) {
    const opened = open();
    const where = { sessionId: "run", sessionKey: "agent:main:main" };
    const names = new Map();
    for (const message of chat.messages) {
      await opened.engine.ingestBatch({ ...where, messages: [asAgentMessage(message, names)] });
    }
    const tool = createLcmGrepTool({ deps: opened.needs, lcm: opened.engine, sessionKey: where.sessionKey, sessionId: where.sessionId });
    const contents = new Map(opened.db.prepare("SELECT message_id AS id, content FROM messages").all().map((row) => [row.id, row.content]));
    const answers = [];
    for (const question of chat.questions) {
      const answer = await tool.execute("call", { pattern: question, mode: "full_text", scope: "messages", sort: "relevance", limit: 10 });
      const text = answer.content.map((block) => block.text).join("\n");
      answers.push([...text.matchAll(/\[msg#(\d+)\]/g)].map((match) => contents.get(Number(match[1]))).slice(0, 10));
    }
    shown.push(answers);
    close(opened);
  }
  return shown;
}

const result = { play: await play(process.argv[2]) };
if (process.argv[3]) result.recall = await recall(process.argv[3]);
console.log(JSON.stringify(result));
process.exit(0);
