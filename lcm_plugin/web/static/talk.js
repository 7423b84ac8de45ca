"use strict";
// A talk of any length: it is divided into stripes of places, and only those near the window are in the document.
(() => {
  const talk = document.getElementById("talk");
  const number = talk.dataset.number;
  const size = Number(talk.dataset.stripe);
  const hidden = document.getElementById("hidden");
  const unfold = document.getElementById("unfold");
  const where = document.getElementById("where");
  const guess = 110;
  let last = Number(talk.dataset.last);
  let held = null;
  let jumps = 0;
  let moving = Promise.resolve();
  const stripes = [];

  const topLine = () => Math.max(...[...document.querySelectorAll(".top, .bar")].map((one) => one.getBoundingClientRect().bottom));
  const loaded = () => stripes.filter((one) => one.rows !== null);
  const rowsOf = (stripe) => [...stripe.element.querySelectorAll(":scope > article")];

  function firstSeen() {
    const line = topLine();
    for (const stripe of loaded()) {
      if (stripe.element.getBoundingClientRect().bottom <= line) continue;
      const row = rowsOf(stripe).find((one) => one.getBoundingClientRect().bottom > line);
      if (row) return row;
    }
    return null;
  }

  // What is being read stays where it is while stripes above it change their height.
  function keeping(change) {
    const anchor = held && held.isConnected ? held : firstSeen();
    const before = anchor ? anchor.getBoundingClientRect().top : 0;
    change();
    if (anchor && anchor.isConnected) window.scrollBy(0, anchor.getBoundingClientRect().top - before);
  }

  async function load(stripe) {
    if (stripe.rows !== null) return stripe.rows;
    if (stripe.coming) return stripe.coming;
    const query = new URLSearchParams({ after: stripe.at * size, limit: size });
    if (hidden.checked) query.set("hidden", "true");
    stripe.coming = (async () => {
      const answer = await fetch(`/talk/${number}/rows?${query}`);
      const text = answer.ok ? await answer.text() : `<p class="problem">These rows could not be read (${answer.status}).</p>`;
      keeping(() => {
        stripe.element.innerHTML = text;
        stripe.element.style.height = "";
        stripe.rows = stripe.element.childElementCount;
        if (unfold.checked) openAll(stripe.element, true);
      });
      stripe.coming = null;
      tell();
      return stripe.rows;
    })();
    return stripe.coming;
  }

  function unload(stripe) {
    if (stripe.rows === null || stripe.coming || stripe.element.contains(document.activeElement)) return;
    const height = stripe.element.getBoundingClientRect().height;
    stripe.element.style.height = `${height}px`;
    stripe.element.replaceChildren();
    stripe.rows = null;
  }

  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const stripe = stripes[Number(entry.target.dataset.at)];
      if (entry.isIntersecting) load(stripe);
      else unload(stripe);
    }
  }, { rootMargin: "1600px 0px" });

  function grow() {
    const wanted = Math.max(1, Math.ceil(last / size));
    const added = document.createDocumentFragment();
    const fresh = [];
    while (stripes.length < wanted) {
      const element = document.createElement("div");
      const at = stripes.length;
      element.className = "stripe";
      element.dataset.at = at;
      element.style.height = `${guess * Math.min(size, Math.max(1, last - at * size))}px`;
      stripes.push({ element, at, rows: null, coming: null });
      fresh.push(element);
      added.append(element);
    }
    talk.append(added);
    return fresh;
  }

  function tell() {
    const row = firstSeen();
    where.textContent = row ? `place ${Number(row.dataset.seq).toLocaleString("en")} of ${last.toLocaleString("en")}` : "";
  }

  const openAll = (within, open) => { for (const one of within.querySelectorAll("details.fold")) one.open = open; };
  const nearest = (rows, place) => rows.find((row) => Number(row.dataset.seq) >= place) || rows[rows.length - 1];

  async function jump(place, ref, choose) {
    const jumpNumber = ++jumps;
    const stripe = stripes[Math.min(stripes.length - 1, Math.max(0, Math.ceil(place / size) - 1))];
    stripe.element.scrollIntoView({ block: "center" });
    await load(stripe);
    const row = (ref && document.getElementById(ref)) || nearest(rowsOf(stripe), place);
    if (!row || jumpNumber !== jumps) return;
    held = row;
    row.scrollIntoView({ block: place >= last ? "end" : "center" });
    if (choose) mark(row, true);
    setTimeout(() => { if (held === row) held = null; }, 1500);
  }

  function mark(row, focus) {
    for (const one of talk.querySelectorAll(".chosen")) one.classList.remove("chosen");
    row.classList.add("chosen");
    if (focus) row.focus({ preventScroll: true });
    const address = new URL(window.location);
    address.searchParams.set("at", row.id);
    history.replaceState(null, "", address);
  }

  async function step(by) {
    const current = document.activeElement.closest("#talk article") || talk.querySelector(".chosen") || firstSeen();
    if (!current) return;
    let stripe = stripes[Number(current.parentElement.dataset.at)];
    let rows = rowsOf(stripe);
    let at = rows.indexOf(current) + (document.activeElement === document.body ? 0 : by);
    while (at < 0 || at >= rows.length) {
      stripe = stripes[stripe.at + by];
      if (!stripe) return;
      await load(stripe);
      rows = rowsOf(stripe);
      at = by > 0 ? 0 : rows.length - 1;
      if (!rows.length) at = by > 0 ? 1 : -1;
    }
    mark(rows[at], true);
    rows[at].scrollIntoView({ block: "nearest" });
  }

  function summaryOf(row) {
    for (let one = row; one; one = one.previousElementSibling) {
      const link = one.querySelector(".beside a");
      if (link) return link;
    }
    return null;
  }

  const keys = {
    j: () => { moving = moving.then(() => step(1)); },
    k: () => { moving = moving.then(() => step(-1)); },
    g: () => jump(1, "", true),
    G: () => jump(last, "", true),
    h: () => hidden.click(),
    s: () => { const row = talk.querySelector(".chosen"); const link = row && summaryOf(row); if (link) link.click(); },
    Enter: () => {
      const row = talk.querySelector(".chosen");
      if (!row || document.activeElement !== row) return;
      const folds = [...row.querySelectorAll("details")];
      const open = folds.some((one) => !one.open);
      for (const one of folds) one.open = open;
    },
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    if (keys[event.key] && !(event.key === "Enter" && event.target.closest("a, button, summary"))) keys[event.key]();
  });
  hidden.addEventListener("change", () => {
    const row = talk.querySelector(".chosen") || firstSeen();
    const address = new URL(window.location);
    if (hidden.checked) address.searchParams.set("hidden", "true");
    else address.searchParams.delete("hidden");
    history.replaceState(null, "", address);
    for (const stripe of stripes) { stripe.rows = null; stripe.coming = null; }
    if (row) jump(Number(row.dataset.seq), row.id, false);
    for (const stripe of loaded()) load(stripe);
    watch();
  });
  unfold.addEventListener("change", () => keeping(() => openAll(talk, unfold.checked)));
  document.getElementById("oldest").addEventListener("click", () => jump(1, "", true));
  document.getElementById("newest").addEventListener("click", () => jump(last, "", true));
  talk.addEventListener("click", (event) => {
    const row = event.target.closest("article");
    if (row && !event.target.closest("a, summary, pre")) mark(row, false);
  });
  let telling = 0;
  window.addEventListener("scroll", () => { cancelAnimationFrame(telling); telling = requestAnimationFrame(tell); }, { passive: true });

  function watch() {
    near.disconnect();
    for (const stripe of stripes) near.observe(stripe.element);
  }

  // More was stored since: the newest stripe is read again, and new ones follow.
  window.addEventListener("lcm:last", (event) => {
    if (event.detail.number !== number || event.detail.last === last) return;
    const following = window.innerHeight + window.scrollY > document.documentElement.scrollHeight - 300;
    const end = stripes[stripes.length - 1];
    last = event.detail.last;
    const fresh = grow();
    const again = end.rows !== null;
    end.rows = null;
    if (again) load(end);
    for (const element of fresh) near.observe(element);
    if (following) jump(last, "", false);
  });

  grow();
  jump(Number(talk.dataset.at), talk.dataset.ref, Boolean(talk.dataset.ref)).then(watch);
})();
