// Small things that every part of the page needs.

const $ = (id) => document.getElementById(id);
const about = JSON.parse($("about").textContent);
const isNarrow = () => window.matchMedia("(max-width: 819px)").matches;

/** An element with attributes; `text` becomes its text, functions become listeners. */
function el(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "rect", "text", "title", "line"].includes(tag) && attributes.svg !== false;
  const made = svg && tag !== "title" ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false || name === "svg") continue;
    if (name === "text") made.textContent = value;
    else if (typeof value === "function") made.addEventListener(name, value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const count = (number) => number.toLocaleString("en-US");
const plural = (number, word, many = `${word}s`) => `${count(number)} ${number === 1 ? word : many}`;

function formatter(options) {
  try {
    return new Intl.DateTimeFormat("en-GB", { timeZone: about.timezone, ...options });
  } catch {
    return new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", ...options });
  }
}

const dayFormat = formatter({ day: "numeric", month: "short", year: "numeric" });
const clockFormat = formatter({ hour: "2-digit", minute: "2-digit" });
const day = (at) => dayFormat.format(at);
const clock = (at) => clockFormat.format(at);
const moment = (at) => `${day(at)}, ${clock(at)}`;

/** Two times, the day said once when it is the same. */
function span(from, to) {
  if (day(from) !== day(to)) return `${day(from)} – ${day(to)}`;
  return clock(from) === clock(to) ? moment(from) : `${moment(from)}–${clock(to)}`;
}

/** How a text begins, on one line. */
function gist(text, length = 90) {
  const line = text.slice(0, 4 * length).replace(/\s+/g, " ").trim();
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

/** Fills an element with a text in which every one of the words is marked. */
function put(element, text, words) {
  if (!words.length) {
    element.textContent = text;
    return element;
  }
  const escaped = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const pattern = new RegExp(escaped.join("|"), "gi");
  let done = 0;
  for (const match of text.matchAll(pattern)) {
    element.append(text.slice(done, match.index), el("mark", { text: match[0] }));
    done = match.index + match[0].length;
  }
  element.append(text.slice(done));
  return element;
}

/** Makes one of several elements reachable by Tab; arrow keys lead to the others. */
function rove(container, selector, chosen) {
  for (const one of container.querySelectorAll(selector)) one.tabIndex = one === chosen ? 0 : -1;
}
