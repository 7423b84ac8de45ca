"use strict";
(() => {
  const themes = { auto: "as the system", light: "light", dark: "dark" };
  const button = document.getElementById("theme");
  const name = () => { button.setAttribute("aria-label", `Colours: ${themes[document.documentElement.dataset.theme]}`); };
  button.addEventListener("click", () => {
    const order = Object.keys(themes);
    const next = order[(order.indexOf(document.documentElement.dataset.theme) + 1) % order.length];
    document.documentElement.dataset.theme = next;
    try { localStorage.setItem("lcm-theme", next); } catch { /* it lasts as long as the page */ }
    name();
  });
  name();

  const writes = (element) => element.closest("input, textarea, select, [contenteditable]");
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !writes(event.target) && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      document.getElementById("find").select();
      document.getElementById("find").focus();
    } else if (event.key === "Escape" && event.target.id === "find") {
      event.target.blur();
    }
  });
})();
