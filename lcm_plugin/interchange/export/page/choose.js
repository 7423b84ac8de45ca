// The conversations of the page as a list by their titles, the one used last first.

const newestFirst = [...about.conversations].sort((one, other) => other.active - one.active || other.to - one.to || other.id - one.id);

function factsOf(one) {
  const parts = [one.title === one.key ? "" : one.key, one.project, one.source, plural(one.messages, "message")];
  if (!one.active) parts.push(`archived (${one.ended ?? "ended"})`);
  return parts.filter(Boolean);
}

function listConversations() {
  const words = wordsOf($("narrow").value);
  const fits = (one) => {
    const text = `${one.title}\n${one.key}\n${one.project}\n${one.source}`.toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const rows = newestFirst.filter(fits).map((one) => el("li", {}, el("a", {
    href: `#${one.id}`, "data-id": one.id, "aria-current": one === state.history.facts ? "true" : null,
    click: () => $("conversations").close(),
  }, el("b", { text: one.title }), el("time", { text: moment(one.to) }), el("span", { class: "quiet", text: factsOf(one).join(" · ") }))));
  $("listed").replaceChildren(...rows);
  $("fitting").textContent = plural(rows.length, "conversation");
}

function openConversations() {
  $("narrow").value = "";
  listConversations();
  $("conversations").showModal();
}

function startChoosing() {
  const choose = $("choose");
  choose.hidden = newestFirst.length < 2;
  choose.textContent = plural(newestFirst.length, "conversation");
  choose.addEventListener("click", openConversations);
  $("narrow").addEventListener("input", listConversations);
  $("close").addEventListener("click", () => $("conversations").close());
  $("conversations").addEventListener("click", (event) => { if (event.target === $("conversations")) $("conversations").close(); });
}
