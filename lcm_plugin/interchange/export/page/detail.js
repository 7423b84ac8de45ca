// What is told of one summary or message, and of the context when nothing is chosen.

function redrawDetail() {
  const { chosen } = state;
  const pieces = !chosen ? contextDetail() : isSummary(chosen) ? summaryDetail(chosen) : messageDetail(chosen);
  $("node").replaceChildren(...pieces);
}

function summaryDetail(summary) {
  const made = summary.fallback ? "written by extraction, since no model answered" : summary.level === "person" ? "written by a person" : `${summary.level} pass${summary.model ? ` by ${summary.model}` : ""}`;
  return [
    heading(nameOf(summary), summary),
    facts([
      ["Covers", `${plural(summary.messages, "message")}, ${span(summary.from, summary.to)}`],
      ["Tokens", `${count(summary.covered)} in the messages, ${count(summary.tokens)} here`],
      ["Made", `${moment(summary.made)}, ${made}`],
    ]),
    prose(summary.text, state.words, "card"),
    el("h3", { text: `Made from ${summary.depth ? plural(summary.sources.length, "summary", "summaries") : plural(summary.sources.length, "message")}` }),
    links(summary.sources.map((id) => state.history.node(id))),
  ];
}

function messageDetail(message) {
  const way = state.history.way(message);
  return [
    heading(message.role, message),
    facts([["Written", moment(message.at)], ["Position", `${count(message.seq)} of ${count(state.history.messages.length)}`]]),
    article(message, true),
    el("h3", { text: way.length ? "Covered by" : "Covered by no summary" }),
    links(way.reverse()),
  ];
}

/** The context in order, raw messages in runs. */
function contextDetail() {
  const { history } = state;
  const rows = [];
  let run = [];
  const close = () => {
    if (run.length) rows.push(runLink(run));
    run = [];
  };
  for (const [id] of history.context) {
    const node = history.node(id);
    if (!node) continue;
    if (isSummary(node)) {
      close();
      rows.push(link(node));
    } else run.push(node);
  }
  close();
  return [
    el("h2", { text: history.facts.active ? "What the model is given now" : "What the model was given last" }),
    el("p", { class: "quiet", text: rows.length ? "In this order. Choose a summary to see what it was made from." : "Nothing." }),
    el("ul", { class: "links" }, ...rows.map((row) => el("li", {}, row))),
  ];
}

function heading(text, node) {
  return el("div", { class: "heading" }, el("h2", { text }), el("code", { text: node.id }),
    standingMark(node));
}

function facts(pairs) {
  return el("dl", {}, ...pairs.flatMap(([name, value]) => [el("dt", { text: name }), el("dd", { text: value })]));
}

function links(nodes) {
  return el("ul", { class: "links" }, ...nodes.filter(Boolean).map((node) => el("li", {}, link(node))));
}

function link(node) {
  const size = isSummary(node) ? `${plural(node.messages, "message")} · ${plural(node.tokens, "token")}` : plural(node.tokens, "token");
  return el("button", { type: "button", class: "link", "data-link": node.id, click: () => go(node) },
    el("span", { class: `role role-${isSummary(node) ? `summary depth-${Math.min(node.depth, 4)}` : node.role}`, text: nameOf(node) }),
    el("span", { class: "size", text: size }),
    put(el("span", { class: "snippet" }), gist(textOf(node), 140) || "No text.", state.words));
}

function runLink(run) {
  const tokens = run.reduce((sum, message) => sum + message.contextTokens, 0);
  return el("button", {
    type: "button", class: "link", click: () => {
      chooseTab("list");
      scrollToMessage(run[0], true);
    },
  },
  el("span", { class: "role", text: `${plural(run.length, "message")} as they were` }),
  el("span", { class: "size", text: plural(tokens, "token") }),
  el("span", { class: "snippet", text: run.length > 1 ? `${run[0].id} … ${run[run.length - 1].id}` : run[0].id }));
}
