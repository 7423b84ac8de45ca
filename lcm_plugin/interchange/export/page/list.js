// The messages as a list that is built where it is looked at.

const CHUNK = 40;
const LONG_TEXT = 1_500;

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
  const body = block.kind === "reasoning" ? prose(block.text, state.words, "text")
    : put(el("pre", { class: "text", tabindex: 0 }), pretty(block), state.words);
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
  const body = prose(block.text, state.words);
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
  if (state.chosen && !isSummary(state.chosen)) $(`list-${state.chosen.id}`)?.classList.add("chosen");
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
