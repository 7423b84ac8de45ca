// The page as a whole: budget, time line, tabs, theme, keys, and the way from one place to the next.

function drawFacts() {
  const { facts, messages, summaries } = state.history;
  const when = messages.length ? span(messages[0].at, messages[messages.length - 1].at) : "";
  const sizes = [plural(messages.length, "message"), plural(summaries.length, "summary", "summaries")];
  const [key, project, source] = [facts.title === facts.key ? "" : facts.key, facts.project, facts.source];
  const ended = facts.active ? "" : `archived (${facts.ended ?? "ended"})`;
  $("title").textContent = facts.title;
  $("facts").textContent = [key, project, source, ...sizes, when, ended].filter(Boolean).join(" · ");
  document.title = facts.title;
}

/** The tokens of the context by kind: summaries by depth, the deepest first, messages as -1. */
function contextByKind() {
  const kinds = new Map();
  for (const [id, tokens] of state.history.context) {
    const node = state.history.node(id);
    if (!node) continue;
    const kind = isSummary(node) ? node.depth : -1;
    const sum = kinds.get(kind) ?? { tokens: 0, items: 0 };
    kinds.set(kind, { tokens: sum.tokens + tokens, items: sum.items + 1 });
  }
  return [...kinds].sort(([one], [other]) => other - one);
}

/** The bar: the context by kind against the budget of the session's last call. */
function drawBudget() {
  const { budget, overhead, soft, hard } = state.history.facts;
  const kinds = contextByKind();
  const total = kinds.reduce((sum, [, { tokens }]) => sum + tokens, 0);
  const all = state.history.messages.reduce((sum, message) => sum + message.tokens, 0);
  const whole = Math.max(budget, overhead + total, 1);
  $("spent").replaceChildren(
    el("b", { text: `${count(total)} tokens` }), ` of ${count(budget)} in the context`,
    overhead ? ` beside ${count(overhead)} that the host adds itself` : "",
    el("span", { class: "quiet", text: ` · the whole history has ${count(all)}` }));
  const piece = (name, kind, tokens) => {
    const text = `${name}: ${count(tokens)} tokens`;
    const part = el("div", { class: `part ${kind}`, role: "listitem" }, el("button", {
      type: "button", title: text, "aria-label": text, click: () => go(null),
    }));
    part.style.width = `${(100 * tokens) / whole}%`;
    return part;
  };
  const parts = kinds.map(([kind, { tokens, items }]) => (kind < 0
    ? piece(plural(items, "message"), "raw", tokens)
    : piece(`${plural(items, "summary", "summaries")} of depth ${kind}`, `depth-${Math.min(kind, 4)}`, tokens)));
  if (overhead) parts.unshift(piece("The host's own", "overhead", overhead));
  const marks = [[soft, "compaction is owed"], [hard, "a turn waits for compaction"]].map(([tokens, text]) => {
    const mark = el("span", { class: "mark", "aria-hidden": "true", title: `from ${count(tokens)} tokens on ${text}` });
    mark.style.left = `${(100 * (overhead + tokens)) / whole}%`;
    return mark;
  });
  $("bar").replaceChildren(...parts);
  $("marks").replaceChildren(...marks);
}

function drawTimeline() {
  const { messages } = state.history;
  const line = $("timeline");
  if (!messages.length) {
    line.replaceChildren();
    $("timespan").textContent = "";
    return;
  }
  const [first, last] = [messages[0].at, Math.max(...[messages[0].at, messages[messages.length - 1].at])];
  const places = Math.max(1, Math.min(messages.length, Math.floor(line.clientWidth / 9)));
  const step = Math.max(1, (last - first) / places);
  const bins = Array.from({ length: places }, () => []);
  for (const message of messages) bins[Math.max(0, Math.min(places - 1, Math.floor((message.at - first) / step)))].push(message);
  const most = Math.max(...bins.map((bin) => bin.length));
  const [low, high] = state.view;
  line.replaceChildren(...bins.map((bin, place) => {
    if (!bin.length) return el("span", { class: "gap" });
    const seen = bin.some((message) => message.index >= low && message.index < high);
    const from = first + place * step;
    const bar = el("button", {
      type: "button", tabindex: -1, class: seen ? "seen" : "", click: () => {
        showResults(false);
        chooseTab("list");
        scrollToMessage(bin[0], true, "start");
      },
      "aria-label": `${span(from, from + step)}: ${plural(bin.length, "message")}`,
      title: `${span(from, from + step)}: ${plural(bin.length, "message")}`,
    }, el("i"));
    bar.firstElementChild.style.height = `${Math.max(12, 100 * Math.sqrt(bin.length / most))}%`;
    return bar;
  }));
  rove(line, "button", line.querySelector("button"));
  $("timespan").textContent = `${moment(first)}  –  ${moment(last)} (${about.timezone})`;
}

function timelineKey(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const bars = [...$("timeline").querySelectorAll("button")];
  const next = bars[bars.indexOf(event.target) + step];
  if (!next) return;
  rove($("timeline"), "button", next);
  next.focus();
}

function drawLegend() {
  const entries = [];
  for (let depth = state.history.depth; depth >= 0; depth -= 1) {
    entries.push([`depth-${Math.min(depth, 4)}`, depth ? `summaries of depth ${depth}` : "leaf summaries"]);
  }
  const out = [...state.history.nodes.values()].some((node) => !node.reached);
  const roles = new Set(state.history.messages.map((message) => message.role));
  entries.push(["raw", "several messages"], ...["user", "assistant", "tool"].filter((role) => roles.has(role)).map((role) => [role, role]));
  entries.push(["held", "in the context"], ...(out ? [["out", "not in the context"]] : []));
  $("legend").replaceChildren(...entries.map(([kind, text]) => el("li", {}, el("i", { class: kind }), text)));
}

function chooseTab(name) {
  document.body.dataset.tab = name;
  for (const one of ["list", "node"]) {
    $(`tab-${one}`).setAttribute("aria-selected", String(one === name));
    $(`tab-${one}`).tabIndex = one === name ? 0 : -1;
  }
}

function tabKey(event) {
  if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
  const other = document.body.dataset.tab === "list" ? "node" : "list";
  chooseTab(other);
  $(`tab-${other}`).focus();
}

/** Everything that depends on what is chosen. */
function show(node) {
  state.chosen = node;
  frameNode(node);
  drawMap();
  drawTimeline();
  redrawDetail();
  markChosen();
  $("node-pane").scrollTop = 0;
  if (!node) return;
  chooseTab(document.activeElement?.closest("#list-pane") ? "list" : "node");
  if (isNarrow()) bringIntoView(node);
  else scrollToPlace();
  if (state.landing && !isSummary(node)) scrollToMessage(node, true);
  state.landing = false;
}

/** On a phone the page scrolls as a whole: the picture with what is told of the node below it. */
function bringIntoView(node) {
  if (document.body.dataset.tab === "list" && !isSummary(node)) return scrollToMessage(node);
  const map = document.querySelector(".map");
  const { top } = map.getBoundingClientRect();
  if (top < 60 || top > 300) map.scrollIntoView({ block: "start" });
  return undefined;
}

/** Opens the place that the address names, else the newest message of a conversation. */
function arrive() {
  const [id, name] = location.hash.slice(1).split("/");
  const wanted = about.conversations.find((one) => String(one.id) === id) ?? newestFirst[0];
  const other = state.history?.facts !== wanted;
  if (other) {
    state.history = historyOf(wanted);
    drawFacts();
    drawBudget();
    drawLegend();
    drawList();
  }
  show(name ? state.history.node(name) : null);
  if (!other || state.chosen) return;
  if (isNarrow()) chooseTab("list");
  scrollToPlace();
}

/** Brings what is chosen into view in the list, else the newest message. */
function scrollToPlace() {
  const { messages } = state.history;
  const { chosen } = state;
  const wanted = chosen ? (isSummary(chosen) ? messages[chosen.start] : chosen) : messages[messages.length - 1];
  if (wanted) scrollToMessage(wanted, false, chosen ? "nearest" : "end");
}

function pageKey(event) {
  const typing = event.target.matches?.("input, select, textarea") || $("conversations").open;
  if (event.key !== "Escape" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (!$("results").hidden) showResults(false);
  else if (state.chosen) go(state.chosen.derived ?? null);
  else frameAll();
}

function frameAll() {
  frameNode(null);
  drawMap();
  drawTimeline();
}

function start() {
  chooseTab("node");
  startChoosing();
  startSearching();
  $("messages").addEventListener("keydown", listKey);
  $("picture").addEventListener("keydown", mapKey);
  $("timeline").addEventListener("keydown", timelineKey);
  document.querySelector(".tabs").addEventListener("keydown", tabKey);
  for (const one of ["list", "node"]) $(`tab-${one}`).addEventListener("click", () => chooseTab(one));
  $("out").addEventListener("click", () => (state.chosen ? go(null) : frameAll()));
  $("help").addEventListener("click", () => {
    $("keys").hidden = !$("keys").hidden;
    $("help").setAttribute("aria-expanded", String(!$("keys").hidden));
  });
  document.addEventListener("keydown", pageKey);
  window.addEventListener("hashchange", arrive);
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    drawMap();
    drawTimeline();
  });
  arrive();
}

start();
