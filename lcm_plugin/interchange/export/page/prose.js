// Markdown as the pages of `lcm web` show it: no elements of its own, no pictures from elsewhere.

const markdown = globalThis.markdownit("commonmark", { html: false }).enable(["table", "strikethrough"]).disable("image");

/** A heading of a message is none of the page's. */
function messageHeading(tokens, at, options, env, renderer) {
  const token = tokens[at];
  if (token.nesting > 0) token.attrSet("class", `heading level-${token.tag.slice(1)}`);
  token.tag = "p";
  return renderer.renderToken(tokens, at, options);
}

const codeBlock = (tokens, at) => `<pre class="code" tabindex="0"><code>${markdown.utils.escapeHtml(tokens[at].content)}</code></pre>\n`;

Object.assign(markdown.renderer.rules, {
  heading_open: messageHeading,
  heading_close: messageHeading,
  fence: codeBlock,
  code_block: codeBlock,
  link_open(tokens, at, options, env, renderer) {
    tokens[at].attrSet("rel", "noreferrer noopener nofollow");
    tokens[at].attrSet("target", "_blank");
    return renderer.renderToken(tokens, at, options);
  },
});

/** An element with a text's Markdown in it, every one of the words marked. */
function prose(text, words, kind = "") {
  const holder = el("div", { class: `prose ${kind}`.trim() });
  holder.innerHTML = markdown.render(text);
  if (!words.length) return holder;
  const walker = document.createTreeWalker(holder, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode);
  for (const one of texts) {
    const marked = put(document.createDocumentFragment(), one.data, words);
    if (marked.childElementCount) one.replaceWith(marked);
  }
  return holder;
}
