"use strict";
// What `lcm web` and the exported page have in common: the colours, and the key that leads to the search.
(() => {
  const themes = { auto: ["◐", "as the system"], light: ["☀", "light"], dark: ["☾", "dark"] };
  const root = document.documentElement;

  function saved() {
    try {
      const theme = localStorage.getItem("lcm-theme");
      return theme in themes ? theme : "auto";
    } catch {
      return "auto";
    }
  }

  function choose(theme) {
    root.dataset.theme = theme;
    try {
      localStorage.setItem("lcm-theme", theme);
    } catch { /* It lasts as long as the page. */ }
  }

  function name(button) {
    const [sign, words] = themes[root.dataset.theme];
    button.textContent = sign;
    button.title = `Colours: ${words}`;
    button.setAttribute("aria-label", button.title);
  }

  // Before the page is drawn, so that it does not flash in the other colours.
  root.dataset.theme = saved();
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    name(button);
    button.addEventListener("click", () => {
      const order = Object.keys(themes);
      choose(order[(order.indexOf(root.dataset.theme) + 1) % order.length]);
      name(button);
    });
  });

  document.addEventListener("keydown", (event) => {
    const search = document.querySelector("[role=search] input");
    const writes = event.target.closest?.("input, textarea, select, [contenteditable], dialog");
    if (event.key === "/" && !writes && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      search.focus();
      search.select();
    } else if (event.key === "Escape" && event.target === search) {
      search.blur();
    }
  });
})();
