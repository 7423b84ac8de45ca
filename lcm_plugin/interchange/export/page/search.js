// The search over everything on the page: the conversation that is open first, then the others.

const MOST_FOUND = 300;
const MOST_AT_ONCE = 40;
let searches = 0;

/** The words looked for; what stands in quotes is one. */
function wordsOf(query) {
  return [...query.toLowerCase().matchAll(/"([^"]+)"|(\S+)/g)].map((match) => match[1] ?? match[2]);
}

function find(facts, words) {
  const holds = (node) => {
    node.lower ??= textOf(node).toLowerCase();
    return words.every((word) => node.lower.includes(word));
  };
  const { summaries, messages } = dataOf(facts);
  return [...summaries.filter(holds), ...messages.filter(holds)];
}

async function search() {
  const mine = ++searches;
  const words = wordsOf($("query").value.trim());
  const changed = words.join("\n") !== state.words.join("\n");
  state.words = words;
  if (changed) drawList();
  showResults(words.length > 0);
  $("results").replaceChildren();
  if (!words.length) {
    $("status").textContent = "";
    if (changed) redrawDetail();
    scrollToPlace();
    return;
  }
  const places = [state.history.facts, ...newestFirst.filter((one) => one !== state.history.facts && !$("here").checked)];
  const sums = { messages: 0, summaries: 0, conversations: 0 };
  let begun = performance.now();
  for (const facts of places) {
    addHits(facts, find(facts, words), sums);
    if (performance.now() - begun < MOST_AT_ONCE) continue;
    $("status").textContent = `${told(sums)} …`;
    // The page stays usable while a large one is searched; another query ends this one.
    await new Promise((done) => { setTimeout(done); });
    if (mine !== searches) return;
    begun = performance.now();
  }
  $("status").textContent = told(sums);
  rove($("results"), "button", $("results").firstElementChild);
}

function addHits(facts, found, sums) {
  const room = MOST_FOUND - sums.messages - sums.summaries;
  const summaries = found.filter(isSummary).length;
  sums.summaries += summaries;
  sums.messages += found.length - summaries;
  sums.conversations += found.length ? 1 : 0;
  if (room > 0) $("results").append(...found.slice(0, room).map((node) => hit(facts, node)));
}

function told({ messages, summaries, conversations }) {
  const all = messages + summaries;
  if (!all) return "Nothing found.";
  const where = about.conversations.length > 1 ? ` in ${plural(conversations, "conversation")}` : "";
  const more = all > MOST_FOUND ? `, the first ${MOST_FOUND} shown` : "";
  return `${plural(messages, "message")} and ${plural(summaries, "summary", "summaries")}${where}${more}`;
}

function hit(facts, node) {
  const text = textOf(node);
  const at = text.toLowerCase().indexOf(state.words[0]);
  const from = Math.max(0, at - 60);
  const snippet = `${from ? "…" : ""}${gist(text.slice(from, from + 400), 200)}`;
  return el("button", { type: "button", class: "hit", "data-hit": node.id, tabindex: -1, click: () => openHit(facts, node) },
    el("span", { class: `role role-${isSummary(node) ? "summary" : node.role}`, text: nameOf(node) }),
    el("span", { class: "when", text: isSummary(node) ? span(node.from, node.to) : moment(node.at) }),
    about.conversations.length > 1 ? el("span", { class: "of", text: facts.title }) : null,
    put(el("span", { class: "snippet" }), snippet, state.words));
}

function openHit(facts, node) {
  showResults(false);
  state.landing = true;
  goTo(facts, node);
}

function showResults(shown) {
  document.body.dataset.searching = String(shown);
  $("results").hidden = !shown;
  $("messages").hidden = shown;
  $("where-to-look").hidden = !shown || about.conversations.length < 2;
  if (!shown) return;
  chooseTab("list");
  if (isNarrow()) window.scrollTo(0, 0);
}

function searchKey(event) {
  if (event.key === "Escape") {
    $("query").value = "";
    search();
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

function startSearching() {
  let wait = 0;
  $("query").addEventListener("input", () => {
    clearTimeout(wait);
    wait = setTimeout(search, 150);
  });
  $("query").addEventListener("focus", () => { if (state.words.length) showResults(true); });
  $("query").addEventListener("keydown", searchKey);
  $("here").addEventListener("change", search);
  $("results").addEventListener("keydown", resultKey);
}
