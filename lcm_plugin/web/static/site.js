"use strict";
(() => {
  // What changes while the page is open is read again: of a part of the page, or by the talk itself.
  const live = document.querySelector("[data-live], [data-watch]");
  async function renew(part) {
    if (part.contains(document.activeElement)) return;
    const answer = await fetch(window.location.href);
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById(part.id);
    const open = new Set([...part.querySelectorAll("details[open]")].map((one) => one.getAttribute("hx-get")));
    if (!fresh || open.size) return;
    part.replaceWith(fresh);
    window.htmx?.process(fresh);
  }
  if (live) {
    let waiting = 0;
    const source = new EventSource("/api/events");
    source.addEventListener("change", (event) => {
      for (const one of JSON.parse(event.data).sessions) {
        const number = String(one.number);
        window.dispatchEvent(new CustomEvent("lcm:last", { detail: { number, last: one.last } }));
        const part = document.querySelector("[data-live]");
        if (part && (part.dataset.live === number || !/^\d+$/.test(part.dataset.live))) {
          clearTimeout(waiting);
          waiting = setTimeout(() => renew(document.querySelector("[data-live]")), 150);
        }
      }
    });
    window.addEventListener("pagehide", () => source.close());
  }
})();
