// What every page owes its readers. The value is a list of sentences.
(() => {
  "use strict";
  const faults = [];
  const where = (e) => {
    const text = (e.textContent || "").trim().replace(/\s+/g, " ").slice(0, 40);
    return "<" + e.tagName.toLowerCase() + (e.id ? " id=" + e.id : "") + (e.getAttribute("class") ? " class=" + e.getAttribute("class") : "") + "> " + JSON.stringify(text);
  };
  const visible = (e) => {
    const box = e.getBoundingClientRect();
    const style = getComputedStyle(e);
    return box.width > 0 && box.height > 0 && style.visibility !== "hidden" && style.display !== "none" && !e.closest("details:not([open]) > :not(summary)");
  };

  // The whole page.
  if (!document.documentElement.lang) faults.push("the page does not say its language");
  if (!document.title.trim()) faults.push("the page has no title");
  if (document.querySelectorAll("h1").length !== 1) faults.push("the page has " + document.querySelectorAll("h1").length + " main headings");
  if (document.querySelectorAll("main").length !== 1) faults.push("the page has no main part, or several");
  let level = 1;
  for (const h of document.querySelectorAll("h1, h2, h3, h4")) {
    const now = Number(h.tagName[1]);
    if (now > level + 1) faults.push("a heading skips a level: " + where(h));
    level = now;
  }
  const ids = new Map();
  for (const e of document.querySelectorAll("[id]")) ids.set(e.id, (ids.get(e.id) || 0) + 1);
  for (const [id, n] of ids) if (n > 1) faults.push("the id " + id + " is there " + n + " times");
  const root = document.documentElement;
  if (root.scrollWidth > window.innerWidth + 1) {
    const wide = [...document.querySelectorAll("main *, header *")].find((e) => e.getBoundingClientRect().right > window.innerWidth + 1 && !e.closest(".graph, .table"));
    faults.push("the page is " + root.scrollWidth + " wide in a window of " + window.innerWidth + (wide ? ": " + where(wide) : ""));
  }

  // Names.
  const name = (e) => {
    const label = e.getAttribute("aria-label") || (e.labels && [...e.labels].map((l) => l.textContent).join(" ")) || "";
    const by = (e.getAttribute("aria-labelledby") || "").split(/\s+/).filter(Boolean).map((id) => document.getElementById(id)).map((o) => (o ? o.textContent : "")).join(" ");
    const images = [...e.querySelectorAll("img[alt]")].map((i) => i.alt).join(" ");
    const own = /^(INPUT|SELECT|TEXTAREA)$/.test(e.tagName) ? "" : e.textContent;
    return (label + by + own + images).trim();
  };
  for (const e of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [role=region], fieldset")) {
    if (e.tagName === "FIELDSET") {
      if (!e.querySelector(":scope > legend")) faults.push("a group of fields has no name: " + where(e));
    } else if (!name(e)) faults.push("it has no name: " + where(e));
  }
  for (const e of document.querySelectorAll("img:not([alt])")) faults.push("a picture has no text: " + where(e));
  for (const e of document.querySelectorAll("table")) {
    if (!e.querySelector("th[scope]")) faults.push("a table has no headings: " + where(e));
  }
  for (const e of document.querySelectorAll("[aria-labelledby], [aria-describedby]")) {
    for (const id of ((e.getAttribute("aria-labelledby") || "") + " " + (e.getAttribute("aria-describedby") || "")).split(/\s+/).filter(Boolean)) {
      if (!document.getElementById(id)) faults.push("it refers to " + id + ", which is not there: " + where(e));
    }
  }

  // Contrast: 4.5 to 1, or 3 to 1 for large letters.
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = "#000";
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const d = canvas.getImageData(0, 0, 1, 1).data;
    return [d[0], d[1], d[2], d[3] / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const light = (c) => {
    const [r, g, b] = c.slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const base = over(rgba(getComputedStyle(document.body).backgroundColor), [255, 255, 255, 1]);
  const behind = (e) => {
    const layers = [];
    for (let at = e; at && at !== root; at = at.parentElement) {
      const shape = at.ownerSVGElement && at.matches("g") && at.querySelector(":scope > rect.card, :scope > rect:first-child");
      const color = shape ? rgba(getComputedStyle(shape).fill) : rgba(getComputedStyle(at).backgroundColor);
      if (color[3] > 0) layers.push(color);
      if (color[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), base);
  };
  const seen = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const e = node.parentElement;
    if (!node.textContent.trim() || seen.has(e) || e.closest("title, option, script, .hidden, .skip") || !visible(e)) continue;
    seen.add(e);
    const style = getComputedStyle(e);
    const ink = rgba(e.ownerSVGElement ? style.fill : style.color);
    const paper = behind(e);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const got = ratio(over(ink, paper), paper);
    if (got < (large ? 3 : 4.5)) faults.push("a contrast of " + got.toFixed(2) + ": " + where(e));
  }

  // Focus: whoever moves by keys sees where they are.
  const before = document.activeElement;
  for (const e of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")) {
    if (!visible(e) && !e.ownerSVGElement || e.closest(".skip") || e.closest("details:not([open]) > :not(summary)")) continue;
    e.focus({ preventScroll: true, focusVisible: true });
    if (document.activeElement !== e) { faults.push("it cannot be reached by keys: " + where(e)); continue; }
    const style = getComputedStyle(e);
    const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
    const shape = e.querySelector && e.querySelector(".hit");
    const drawn = shape && getComputedStyle(shape).stroke !== "none";
    const line = e.ownerSVGElement && e.querySelector("text") && getComputedStyle(e.querySelector("text")).textDecorationLine !== "none";
    if (!ring && !drawn && !line) faults.push("its focus cannot be seen: " + where(e));
  }
  if (before && before.focus) before.focus({ preventScroll: true }); else if (document.activeElement) document.activeElement.blur();
  return [...new Set(faults)];
})();
