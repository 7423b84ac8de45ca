// One conversation as the page knows it: messages, summaries, which is made of which, what the context holds.

// `landing`: the next message that is shown gets the focus, as after a hit of the search.
const state = { history: null, chosen: null, view: [0, 1], words: [], landing: false };
const data = new Map();
const histories = new Map();

/** The messages, summaries and context of a conversation, read when they are looked at for the first time. */
function dataOf(facts) {
  if (!data.has(facts)) {
    const element = $(`conversation-${facts.id}`);
    data.set(facts, JSON.parse(element.textContent));
    for (const message of data.get(facts).messages) message.blocks ??= [];
    element.remove();
  }
  return data.get(facts);
}

function historyOf(facts) {
  if (!histories.has(facts)) histories.set(facts, new History(facts));
  return histories.get(facts);
}

class History {
  constructor(facts) {
    const { messages, summaries, context } = dataOf(facts);
    this.facts = facts;
    this.messages = messages;
    this.summaries = summaries;
    this.context = context;
    this.nodes = new Map();
    this.messages.forEach((message, index) => {
      message.index = index;
      this.nodes.set(message.id, message);
    });
    for (const summary of this.summaries) this.nodes.set(summary.id, summary);
    for (const summary of this.summaries) this.link(summary);
    this.depth = this.summaries.reduce((most, one) => Math.max(most, one.depth), -1);
    this.summaries.sort((one, other) => one.start - other.start || other.depth - one.depth);
    for (const [id, tokens] of this.context) this.place(id, tokens);
  }

  /** Notes for each source what was made from it, and which messages a summary spans. */
  link(summary) {
    summary.sources = summary.sources.filter((id) => this.nodes.has(id));
    for (const id of summary.sources) this.nodes.get(id).derived ??= summary;
    summary.start = this.indexFrom(summary.first);
    summary.end = Math.max(summary.start + 1, this.indexFrom(summary.last + 1));
  }

  /** The index of the first message at or behind a position. */
  indexFrom(seq) {
    let low = 0;
    let high = this.messages.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.messages[middle].seq < seq) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Marks what stands in the context and all that it reaches. */
  place(id, tokens) {
    const node = this.nodes.get(id);
    if (!node) return;
    node.inContext = true;
    node.contextTokens = tokens;
    const open = [node];
    while (open.length) {
      const next = open.pop();
      next.reached = true;
      if (isSummary(next)) open.push(...next.sources.map((one) => this.nodes.get(one)));
    }
  }

  node(id) {
    return this.nodes.get(id) ?? null;
  }

  /** The summaries above a node, outermost first. */
  way(node) {
    const above = [];
    for (let one = node.derived; one && !above.includes(one); one = one.derived) above.unshift(one);
    return above;
  }

  /** The messages that a node spans, as indexes: from, up to but without. */
  range(node) {
    return isSummary(node) ? [node.start, node.end] : [node.index, node.index + 1];
  }
}

const isSummary = (node) => "depth" in node;
const textOf = (node) => (isSummary(node) ? node.text : node.blocks.map((block) => block.text).join("\n"));
const nameOf = (node) => (isSummary(node) ? (node.depth ? `Summary of depth ${node.depth}` : "Leaf summary") : node.role);

function standing(node) {
  if (node.inContext) return "In the context";
  if (node.derived) return `Inside ${node.derived.id}`;
  if (node.taken_back) return "Taken back";
  if (node.hidden) return "Stored, never sent";
  return "Not in the context";
}

/** Where a node stands, as a mark; one inside a summary leads there. */
function standingMark(node) {
  const kind = `where ${node.inContext ? "held" : ""}`;
  if (node.inContext || !node.derived) return el("span", { class: kind, text: standing(node) });
  return el("button", { type: "button", tabindex: -1, class: kind, text: standing(node), click: () => go(node.derived) });
}

/** Shows a node, or the whole history for null, and remembers the way back. */
function go(node) {
  goTo(state.history.facts, node);
}

function goTo(facts, node) {
  const place = `#${facts.id}${node ? `/${node.id}` : ""}`;
  if (location.hash === place) show(node && state.history.node(node.id));
  else location.hash = place;
}
