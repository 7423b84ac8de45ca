// The picture: one row per depth, each summary as wide as the messages it covers, the messages below.

const ROW = 34;
const LEAST_WIDTH = 7;
const BUCKET = 16;

function drawMap() {
  const picture = $("picture");
  const { history } = state;
  const focused = picture.contains(document.activeElement) ? document.activeElement.dataset.id : null;
  const gutter = picture.clientWidth > 700 ? 74 : 0;
  const width = Math.max(200, picture.clientWidth);
  const rows = history.depth + 2;
  const svg = el("svg", {
    viewBox: `0 0 ${width} ${rows * ROW}`, width, height: rows * ROW, role: "tree",
    "aria-label": "The history as a tree: summaries above, what they were made from below",
  });
  const frame = { svg, gutter, room: width - gutter, rows };
  if (gutter) drawLabels(frame);
  for (const summary of history.summaries) drawSummary(frame, summary);
  drawMessages(frame);
  picture.replaceChildren(svg);
  const items = [...svg.querySelectorAll("[data-id]")];
  const current = items.find((one) => one.dataset.id === (focused ?? state.chosen?.id)) ?? items[0];
  if (current) rove(svg, "[data-id]", current);
  if (focused && current) current.focus();
  drawPath();
}

function drawLabels({ svg, gutter, rows }) {
  for (let row = 0; row < rows; row += 1) {
    const depth = rows - 2 - row;
    const text = depth < 0 ? "messages" : depth === 0 ? "leaves" : `depth ${depth}`;
    svg.append(el("text", { class: "row", x: gutter - 10, y: row * ROW + ROW / 2 + 4, "text-anchor": "end", text }));
  }
}

/** Where messages lie in the picture. */
function stretch({ gutter, room }, start, end) {
  const [low, high] = state.view;
  const scale = room / (high - low);
  const left = Math.max(0, (start - low) * scale);
  const right = Math.min(room, (end - low) * scale);
  return [gutter + left, right - left];
}

function drawSummary(frame, summary) {
  const [x, width] = stretch(frame, summary.start, summary.end);
  if (width <= 0) return;
  const depth = Math.min(summary.depth, 4);
  const kinds = ["summary", `depth-${depth}`, summary.inContext && "held", !summary.reached && "out"];
  const label = gist(summary.text.replace(/^\s*\[[^\]]*\]\s*/, ""), 200);
  box(frame, {
    id: summary.id, x, width, row: frame.rows - 2 - summary.depth, kinds,
    label, level: frame.rows - 1 - summary.depth, selected: summary === state.chosen,
    told: `${nameOf(summary)}, ${plural(summary.messages, "message")}, ${span(summary.from, summary.to)}. `
      + `${standing(summary)}. ${label}`,
    open: () => go(summary),
  });
}

function drawMessages(frame) {
  const { history } = state;
  const [low, high] = [Math.floor(state.view[0]), Math.ceil(state.view[1])];
  const each = frame.room / (state.view[1] - state.view[0]) >= LEAST_WIDTH;
  const shown = history.messages.slice(Math.max(0, low), high);
  if (each) shown.forEach((message) => drawMessage(frame, message));
  else for (const [start, end] of buckets(shown, frame)) drawBucket(frame, start, end);
}

function drawMessage(frame, message) {
  const [x, width] = stretch(frame, message.index, message.index + 1);
  const kinds = ["message", `role-${message.role}`, message.inContext && "held", !message.reached && "out"];
  box(frame, {
    id: message.id, x, width, row: frame.rows - 1, kinds, label: message.role, level: frame.rows,
    selected: message === state.chosen,
    told: `${message.role}, ${moment(message.at)}. ${standing(message)}. ${gist(textOf(message))}`,
    open: () => go(message),
  });
}

/** Runs of messages with one derived summary, cut so that each can still be hit. */
function* buckets(shown, frame) {
  const scale = frame.room / (state.view[1] - state.view[0]);
  const most = Math.max(1, Math.ceil(BUCKET / scale));
  let start = 0;
  for (let place = 1; place <= shown.length; place += 1) {
    const ends = place === shown.length || shown[place].derived !== shown[start].derived
      || shown[place].inContext !== shown[start].inContext || place - start >= most;
    if (ends) {
      yield [shown[start].index, shown[place - 1].index + 1];
      start = place;
    }
  }
}

function drawBucket(frame, start, end) {
  const [x, width] = stretch(frame, start, end);
  const [first, last] = [state.history.messages[start], state.history.messages[end - 1]];
  const kinds = ["message", "bucket", first.inContext && "held", !first.reached && "out"];
  box(frame, {
    id: `run-${first.id}`, x, width, row: frame.rows - 1, kinds, label: count(end - start), level: frame.rows,
    told: `${plural(end - start, "message")}, ${span(first.at, last.at)}. Enter shows them one by one`,
    open: () => {
      if (end - start === 1) return go(first);
      if (first.derived && first.derived !== state.chosen) return go(first.derived);
      state.view = widened(start, end);
      drawMap();
      drawTimeline();
      return scrollToMessage(first);
    },
  });
}

// Scripts without spaces may end anywhere.
const BROKEN_WORD = /[^\s\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]+$/u;

/** As many words of a label as have room: each stands in the name of the box, which a person may say aloud. */
function wholeWords(label, room) {
  if (label.length <= room) return label;
  const cut = label.slice(0, Math.max(0, room - 1)).replace(BROKEN_WORD, "").trimEnd();
  return cut && `${cut}…`;
}

function box({ svg }, { id, x, width, row, kinds, label, level, selected, told, open }) {
  const group = el("g", {
    class: kinds.filter(Boolean).join(" "), role: "treeitem", tabindex: -1, "data-id": id,
    "aria-label": told, "aria-level": level, "aria-selected": String(Boolean(selected)), click: open,
  });
  const gap = width > 5 ? 1 : 0;
  const shape = { x: x + gap / 2, y: row * ROW + 2, width: Math.max(0.8, width - gap), height: ROW - 4 };
  group.append(el("rect", { ...shape, rx: width > 10 ? 4 : 1 }));
  const text = wholeWords(label, Math.floor((width - 12) / 6.6));
  if (text) group.append(el("text", { x: x + 7, y: row * ROW + ROW / 2 + 4, text }));
  const tip = document.createElementNS("http://www.w3.org/2000/svg", "title");
  tip.textContent = told;
  group.append(tip);
  svg.append(group);
}

/** A stretch with a little room beside it, at least a dozen messages. */
function widened(start, end) {
  const all = state.history.messages.length;
  const least = Math.min(all, 12);
  const missing = Math.max(0, least - (end - start));
  const low = Math.max(0, Math.min(start - missing / 2, all - least));
  return [low, Math.max(low + 1, Math.min(all, end + missing / 2), low + least)];
}

/** Moves the view so that a node can be seen for what it is. */
function frameNode(node) {
  const all = state.history.messages.length || 1;
  if (!node) state.view = [0, all];
  else if (isSummary(node)) state.view = widened(node.start, node.end);
  else {
    const [low, high] = state.view;
    const most = Math.max(12, Math.floor(($("picture").clientWidth - 80) / (LEAST_WIDTH + 3)));
    if (node.index >= low && node.index < high && high - low <= most) return;
    state.view = node.derived && node.derived.end - node.derived.start <= most ? widened(...state.history.range(node.derived))
      : widened(Math.max(0, node.index - most / 2), Math.min(all, node.index + most / 2));
  }
}

function drawPath() {
  const { history, chosen } = state;
  const way = chosen ? [...history.way(chosen), chosen] : [];
  const steps = way.map((node) => el("button", {
    type: "button", class: "plain", text: isSummary(node) ? (node.depth ? `depth ${node.depth}` : "leaf") : node.id,
    title: node.id, "aria-current": node === chosen ? "true" : null, click: () => go(node),
  }));
  $("path").replaceChildren(...steps.flatMap((step) => [el("span", { class: "sep", "aria-hidden": "true", text: "›" }), step]));
}

/** The arrow keys walk over the picture, also to where nothing is drawn yet. */
function mapKey(event) {
  const item = event.target.closest?.("[data-id]");
  if (!item) return;
  const node = state.history.node(item.dataset.id) ?? state.history.node(item.dataset.id.replace(/^run-/, ""));
  const target = mapTarget(event.key, node, item);
  if (target === undefined) return;
  event.preventDefault();
  if (target === null) return;
  if (target instanceof Element) {
    rove($("picture"), "[data-id]", target);
    target.focus();
    return;
  }
  if (!drawn(target)) {
    frameNode(target.derived ?? target);
    drawMap();
  }
  drawn(target)?.focus();
  rove($("picture"), "[data-id]", drawn(target));
}

function mapTarget(key, node, item) {
  if (key === "ArrowDown") return isSummary(node) ? state.history.node(node.sources[0]) : null;
  if (key === "ArrowUp") return node.derived ?? null;
  if (key === "ArrowLeft" || key === "ArrowRight") return neighbour(item, key === "ArrowLeft" ? -1 : 1);
  if (key === "Home") return $("picture").querySelector("[data-id]");
  if (key === "Enter" || key === " ") {
    item.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    return null;
  }
  return undefined;
}

const drawn = (node) => $("picture").querySelector(`[data-id="${node.id}"], [data-id="run-${node.id}"]`);

/** The next box of the same row, drawn or beyond the edge of the view. */
function neighbour(item, step) {
  const row = [...$("picture").querySelectorAll(`[aria-level="${item.getAttribute("aria-level")}"]`)];
  const beside = row[row.indexOf(item) + step];
  if (beside) return beside;
  const node = state.history.node(item.dataset.id);
  if (!node) return null;
  if (!isSummary(node)) return state.history.messages[node.index + step] ?? null;
  const peers = state.history.summaries.filter((one) => one.depth === node.depth);
  return peers[peers.indexOf(node) + step] ?? null;
}
