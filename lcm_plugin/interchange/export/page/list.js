// The messages as a list that is built where it is looked at, and the search over everything.

const CHUNK = 40;
const LONG_TEXT = 1_500;
const MOST_FOUND = 300;

const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) fillChunk(entry.target);
}, { rootMargin: "1200px 0px" });

function drawList() {
  const list = $("messages");
  watcher.disconnect();
  const chunks = [];
  for (let start = 0; start < state.history.messages.length; start += CHUNK) {
    const size = Math.min(CHUNK, state.history.messages.length - start);
    const chunk = el("div", { class: "chunk", "data-start": start });
    chunk.style.minHeight = `${size * 110}px`;
    chunks.push(chunk);
  }
  list.replaceChildren(...chunks);
  chunks.forEach((chunk) => watcher.observe(chunk));
  if (!chunks.length) list.append(el("p", { class: "empty", text: "There are no messages yet." }));
}

function fillChunk(chunk) {
  if (chunk.childElementCount) return;
  const start = Number(chunk.dataset.start);
  const rows = state.history.messages.slice(start, start + CHUNK);
  const pieces = [];
  for (const message of rows) {
    const before = state.history.messages[message.index - 1];
    if (!before || day(before.at) !== day(message.at)) pieces.push(el("h2", { class: "day", text: day(message.at) }));
    pieces.push(article(message));
  }
  chunk.replaceChildren(...pieces);
  chunk.style.minHeight = "";
  watcher.unobserve(chunk);
}

/** A message as it stands in the list. */
function article(message, whole = false) {
  const chosen = message === state.chosen;
  const name = message.sender && message.sender !== message.role ? `${message.role} · ${message.sender}` : message.role;
  const head = el("header", {},
    el("span", { class: `role role-${message.role}`, text: name }),
    el("button", { type: "button", class: "plain id", tabindex: -1, text: message.id, title: "Show in the tree", click: () => go(message) }),
    el("time", { datetime: new Date(message.at).toISOString(), text: clock(message.at), title: moment(message.at) }),
    el("span", { class: "tokens", text: `${plural(message.tokens, "token")}` }),
    standingMark(message));
  return el("article", {
    id: whole ? null : `list-${message.id}`, class: chosen ? "chosen" : null, tabindex: whole ? null : -1,
    "aria-label": `${name}, ${moment(message.at)}`, "data-index": whole ? null : message.index,
  }, head, ...message.blocks.map((block) => blockOf(block, whole)),
  message.blocks.length ? null : el("p", { class: "empty", text: "No text." }));
}

const FOLDED = { call: "Calls", result: "Result of", reasoning: "Reasoning", other: "" };

function blockOf(block, whole) {
  if (block.kind === "text" && !block.file) return textBlock(block, whole);
  if (block.kind === "file" || block.file) {
    const picture = block.picture ? el("img", { src: block.picture, alt: gist(block.text), loading: "lazy" }) : null;
    return el("p", { class: "file" }, picture, put(el("span"), block.text, state.words));
  }
  const title = `${FOLDED[block.kind]} ${block.name ?? ""}`.trim();
  const tag = block.kind === "call" || block.kind === "result" ? "pre" : "div";
  const body = put(el(tag, { class: "text" }), pretty(block), state.words);
  const hit = state.words.some((word) => block.text.toLowerCase().includes(word));
  return el("details", { class: block.kind, open: hit }, el("summary", {}, el("b", { text: title || "Block" }),
    el("span", { class: "hint", text: gist(block.text, 70) })), body, cutNote(block));
}

/** The arguments of a call set out over lines. */
function pretty(block) {
  if (block.kind !== "call" || block.cut) return block.text;
  try {
    return JSON.stringify(JSON.parse(block.text), null, 2);
  } catch {
    return block.text;
  }
}

function textBlock(block, whole) {
  const body = put(el("div", { class: "text" }), block.text, state.words);
  const holder = el("div", {}, body, cutNote(block));
  if (!whole && block.text.length > LONG_TEXT) {
    body.classList.add("clamped");
    const more = el("button", { type: "button", class: "more", text: `Show all ${count(block.text.length)} characters` });
    more.addEventListener("click", () => {
      body.classList.remove("clamped");
      more.remove();
    });
    holder.append(more);
  }
  return holder;
}

function cutNote(block) {
  return block.cut ? el("p", { class: "cut", text: `${count(block.cut)} more characters are not on this page.` }) : null;
}

/** Brings a message into view, whether it was built already or not: moves as little as possible, or to its top ("start"). */
function scrollToMessage(message, focus = false, block = "nearest") {
  const chunk = $("messages").children[Math.floor(message.index / CHUNK)];
  if (!chunk || $("messages").hidden) return;
  fillChunk(chunk);
  const target = $(`list-${message.id}`);
  target.scrollIntoView({ block });
  const box = target.getBoundingClientRect();
  const frame = isNarrow() ? { top: 70, bottom: window.innerHeight } : $("list-pane").getBoundingClientRect();
  if (box.top < frame.top || box.bottom > frame.bottom) target.scrollIntoView({ block: "start" });
  if (focus) target.focus({ preventScroll: true });
}

function markChosen() {
  for (const one of $("messages").querySelectorAll("article.chosen")) one.classList.remove("chosen");
  if (state.chosen && !state.chosen.isSummary) $(`list-${state.chosen.id}`)?.classList.add("chosen");
}

function listKey(event) {
  const row = event.target.closest?.("article");
  if (!row || event.target !== row) return;
  const message = state.history.messages[Number(row.dataset.index)];
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) {
    event.preventDefault();
    const next = state.history.messages[message.index + step];
    if (next) scrollToMessage(next, true);
  } else if (event.key === "Enter") {
    event.preventDefault();
    go(message);
  }
}

// -- search

/** The words looked for; what stands in quotes is one. */
function wordsOf(query) {
  return [...query.toLowerCase().matchAll(/"([^"]+)"|(\S+)/g)].map((match) => match[1] ?? match[2]);
}

function find(words) {
  const holds = (node) => {
    node.lower ??= textOf(node).toLowerCase();
    return words.every((word) => node.lower.includes(word));
  };
  return [...state.history.summaries.filter(holds), ...state.history.messages.filter(holds)];
}

function search() {
  const query = $("query").value.trim();
  const words = wordsOf(query);
  const changed = words.join("\n") !== state.words.join("\n");
  state.words = words;
  if (changed) drawList();
  showResults(words.length > 0);
  if (!words.length) {
    $("status").textContent = "";
    if (changed) redrawDetail();
    return;
  }
  const found = find(words);
  const summaries = found.filter((node) => node.isSummary).length;
  const more = found.length > MOST_FOUND ? `, the first ${MOST_FOUND} shown` : "";
  $("status").textContent = found.length
    ? `${plural(found.length - summaries, "message")} and ${plural(summaries, "summary", "summaries")}${more}`
    : "Nothing found.";
  $("results").replaceChildren(...found.slice(0, MOST_FOUND).map(hit));
  rove($("results"), "button", $("results").firstElementChild);
}

function hit(node) {
  const text = textOf(node);
  const at = text.toLowerCase().indexOf(state.words[0]);
  const from = Math.max(0, at - 60);
  const snippet = `${from ? "…" : ""}${gist(text.slice(from, from + 400), 200)}`;
  return el("button", { type: "button", class: "hit", "data-hit": node.id, click: () => openHit(node) },
    el("span", { class: `role role-${node.isSummary ? "summary" : node.role}`, text: nameOf(node) }),
    el("span", { class: "when", text: node.isSummary ? span(node.from, node.to) : moment(node.at) }),
    put(el("span", { class: "snippet" }), snippet, state.words));
}

function openHit(node) {
  showResults(false);
  go(node);
  if (!node.isSummary) scrollToMessage(node, true);
}

function showResults(shown) {
  document.body.dataset.searching = String(shown);
  $("results").hidden = !shown;
  $("messages").hidden = shown;
  if (!shown) return;
  chooseTab("list");
  if (isNarrow()) window.scrollTo(0, 0);
}

function searchKey(event) {
  if (event.key === "Escape") {
    event.preventDefault();
    $("query").value = "";
    search();
    $("query").blur();
  } else if ((event.key === "ArrowDown" || event.key === "Enter") && !$("results").hidden) {
    event.preventDefault();
    $("results").firstElementChild?.focus();
  }
}

function resultKey(event) {
  const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  if (step) {
    event.preventDefault();
    (event.target[step] ?? (event.key === "ArrowUp" ? $("query") : event.target)).focus();
  } else if (event.key === "Escape") {
    event.stopPropagation();
    $("query").focus();
  }
}
