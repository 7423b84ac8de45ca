"use strict";
// Before the page is drawn, so that it does not flash in the other colours.
try { document.documentElement.dataset.theme = localStorage.getItem("lcm-theme") || "auto"; } catch { /* no storage here */ }
