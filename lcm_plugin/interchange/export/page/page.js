// The page as a whole: budget, time line, tabs, theme, keys, and the way from one place to the next.

function drawFacts() {
  const { facts, messages, summaries } = state.history;
  $("title").textContent = facts.key || `Conversation ${facts.id}`;
  const state_ = facts.active ? "" : ` · archived (${facts.ended ?? "ended"})`;
  const when = messages.length ? ` · ${span(messages[0].at, messages[messages.length - 1].at)}` : "";
  $("facts").textContent = `${plural(messages.length, "message")} · ${plural(summaries.length, "summary", "summaries")}${when}${state_}`;
}

function drawBudget() {
  const kinds = new Map();
  let total = 0;
  for (const [id, tokens] of state.history.context) {
    const node = state.history.node(id);
    if (!node) continue;
    const kind = node.isSummary ? node.depth : -1;
    const sum = kinds.get(kind) ?? { tokens: 0, items: 0 };
    kinds.set(kind, { tokens: sum.tokens + tokens, items: sum.items + 1 });
    total += tokens;
  }
  const all = state.history.messages.reduce((sum, message) => sum + message.tokens, 0);
  const whole = Math.max(about.budget, total, 1);
  $("spent").replaceChildren(
    el("b", { text: `${count(total)} tokens` }), ` of ${count(about.budget)} in the context`,
    el("span", { class: "quiet", text: ` · the whole history has ${count(all)}` }));
  const parts = [...kinds].sort(([one], [other]) => other - one).map(([kind, { tokens, items }]) => {
    const name = kind < 0 ? plural(items, "message") : `${plural(items, "summary", "summaries")} of depth ${kind}`;
    const part = el("button", {
      type: "button", class: `part ${kind < 0 ? "raw" : `depth-${Math.min(kind, 4)}`}`, role: "listitem",
      title: `${name}: ${count(tokens)} tokens`, "aria-label": `${name}: ${count(tokens)} tokens`, click: () => go(null),
    });
    part.style.width = `${(100 * tokens) / whole}%`;
    return part;
  });
  const marks = [[about.soft, "compaction is owed"], [about.hard, "a turn waits for compaction"]].map(([share, text]) => {
    const mark = el("span", { class: "mark", title: `${Math.round(100 * share)} %: ${text}` });
    mark.style.left = `${(100 * share * about.budget) / whole}%`;
    return mark;
  });
  $("bar").replaceChildren(...parts, ...marks);
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
  else scrollToMessage(node.isSummary ? state.history.messages[node.start] : node);
}

/** On a phone the page scrolls as a whole: the picture with what is told of the node below it. */
function bringIntoView(node) {
  if (document.body.dataset.tab === "list" && !node.isSummary) return scrollToMessage(node);
  const map = document.querySelector(".map");
  const { top } = map.getBoundingClientRect();
  if (top < 60 || top > 300) map.scrollIntoView({ block: "start" });
  return undefined;
}

/** The conversation that was used last, one in use before any other. */
function newest() {
  const inUse = about.conversations.filter((one) => one.active);
  return (inUse.length ? inUse : about.conversations).reduce((best, one) => (one.to < best.to ? best : one));
}

/** Opens the place that the address names. */
function arrive() {
  const [id, name] = location.hash.slice(1).split("/");
  const wanted = about.conversations.find((one) => String(one.id) === id) ?? newest();
  if (state.history?.facts !== wanted) {
    state.history = new History(wanted);
    $("choose").value = String(wanted.id);
    drawFacts();
    drawBudget();
    drawLegend();
    drawList();
    if (state.words.length) search();
  }
  show(name ? state.history.node(name) : null);
}

const THEMES = ["auto", "light", "dark"];

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $("theme").textContent = { auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark" }[theme];
  $("theme").setAttribute("aria-label", `Colours: ${theme}. Change`);
  try {
    localStorage.setItem("lcm-theme", theme);
  } catch { /* A page opened from a file may have no storage. */ }
}

function savedTheme() {
  try {
    const saved = localStorage.getItem("lcm-theme");
    return THEMES.includes(saved) ? saved : "auto";
  } catch {
    return "auto";
  }
}

function pageKey(event) {
  const typing = event.target.matches?.("input, select, textarea");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/" && !typing) {
    event.preventDefault();
    $("query").focus();
    $("query").select();
  } else if (event.key === "Escape" && !typing) {
    if (!$("results").hidden) showResults(false);
    else if (state.chosen) go(state.chosen.derived ?? null);
    else frameAll();
  }
}

function frameAll() {
  frameNode(null);
  drawMap();
  drawTimeline();
}

function start() {
  setTheme(savedTheme());
  chooseTab("node");
  const choose = $("choose");
  choose.hidden = about.conversations.length < 2;
  choose.append(...about.conversations.map((one) => el("option", {
    value: one.id, text: `${one.key || one.id} · ${plural(one.messages, "message")}${one.active ? "" : " · archived"}`,
  })));
  choose.addEventListener("change", () => { location.hash = `#${choose.value}`; });
  let wait = 0;
  $("query").addEventListener("input", () => {
    clearTimeout(wait);
    wait = setTimeout(search, 150);
  });
  $("query").addEventListener("focus", () => { if (state.words.length) showResults(true); });
  $("query").addEventListener("keydown", searchKey);
  $("results").addEventListener("keydown", resultKey);
  $("messages").addEventListener("keydown", listKey);
  $("picture").addEventListener("keydown", mapKey);
  $("timeline").addEventListener("keydown", timelineKey);
  document.querySelector(".tabs").addEventListener("keydown", tabKey);
  for (const one of ["list", "node"]) $(`tab-${one}`).addEventListener("click", () => chooseTab(one));
  $("theme").addEventListener("click", () => {
    setTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length]);
  });
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
