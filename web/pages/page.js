// Pages work without this. With it they follow what happens: the server says
// that something has changed, the page is asked for again, and the parts that
// differ are replaced.
(() => {
  "use strict";
  const root = document.documentElement;
  const body = document.body;

  // The button for the look: as the system, light, dark. A cookie keeps it, so
  // that the server renders the right one at once.
  const looks = ["", "light", "dark"];
  const names = { "": "system", light: "light", dark: "dark" };
  const button = document.getElementById("theme");
  const paint = () => {
    const look = root.dataset.theme || "";
    button.textContent = "Theme: " + names[look];
    button.setAttribute("aria-label", "Colour theme: " + names[look] + ". Press for the next one.");
  };
  button.hidden = false;
  paint();
  button.addEventListener("click", () => {
    const next = looks[(looks.indexOf(root.dataset.theme || "") + 1) % looks.length];
    if (next) root.dataset.theme = next; else delete root.dataset.theme;
    const secure = location.protocol === "https:" ? "; Secure" : "";
    document.cookie = "theme=" + next + "; Path=/; Max-Age=" + (next ? 31536000 : 0) + "; SameSite=Lax" + secure;
    paint();
  });

  // A deed that cannot be taken back asks first.
  document.addEventListener("submit", (event) => {
    const question = event.submitter && event.submitter.dataset.confirm;
    if (question && !window.confirm(question)) event.preventDefault();
  });
  // A choice in a form that says so is its own button.
  document.addEventListener("change", (event) => {
    const form = event.target.form;
    if (form && form.hasAttribute("data-auto")) form.requestSubmit();
  });

  if (!body.dataset.stream) return;
  const light = document.getElementById("live");
  const text = document.getElementById("live-text");
  let source = null;
  let seen = body.dataset.seen;
  let busy = false;
  let again = false;

  const say = (state, words) => {
    light.hidden = false;
    light.className = "live " + state;
    text.textContent = words;
    root.classList.toggle("followed", state === "on");
  };

  // What the reader holds is left as it is: the focus, what is unfolded, how
  // far something is scrolled, and a form that is being filled in.
  const replace = (part, fresh) => {
    if (part.innerHTML === fresh.innerHTML) return;
    const active = document.activeElement;
    const inside = part.contains(active) ? active : null;
    if (inside && /^(INPUT|SELECT|TEXTAREA)$/.test(inside.tagName)) return;
    const href = inside && inside.getAttribute("href");
    const id = inside && inside.id;
    const open = new Set([...part.querySelectorAll("details[open]")].map((d) => d.id));
    const scrolled = [...part.querySelectorAll(".graph")].map((g) => g.scrollLeft);
    part.replaceChildren(...fresh.cloneNode(true).childNodes);
    part.querySelectorAll("details").forEach((d) => { if (open.has(d.id)) d.open = true; });
    part.querySelectorAll(".graph").forEach((g, i) => { g.scrollLeft = scrolled[i] || 0; });
    if (!inside) return;
    const same = id ? document.getElementById(id)
      : [...part.querySelectorAll("a[href]")].find((a) => a.getAttribute("href") === href);
    if (same) same.focus({ preventScroll: true });
  };

  const refresh = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin", cache: "no-store", redirect: "error" });
      if (answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const part of document.querySelectorAll("[data-part]")) {
          const fresh = page.getElementById(part.id);
          if (fresh) replace(part, document.importNode(fresh, true));
        }
        const time = page.getElementById("asof");
        if (time) document.getElementById("asof").replaceChildren(...document.importNode(time, true).childNodes);
        document.title = page.title;
        seen = page.body.dataset.seen || seen;
      }
    } catch (_) {
      // The stream says when the server is back.
    } finally {
      busy = false;
      if (again) { again = false; refresh(); }
    }
  };

  const follow = () => {
    if (source || document.hidden) return;
    const glue = body.dataset.stream.includes("?") ? "&" : "?";
    source = new EventSource(body.dataset.stream + glue + "seen=" + encodeURIComponent(seen));
    source.addEventListener("open", () => say("on", "live"));
    source.addEventListener("changed", refresh);
    source.addEventListener("error", () => {
      say("off", "reconnecting");
      if (source && source.readyState === EventSource.CLOSED) {
        source = null;
        setTimeout(() => { refresh(); follow(); }, 15000);
      }
    });
  };
  const rest = () => { if (source) { source.close(); source = null; } };

  // A page that nobody sees takes no connection.
  document.addEventListener("visibilitychange", () => { if (document.hidden) rest(); else follow(); });
  window.addEventListener("pagehide", rest);
  window.addEventListener("pageshow", follow);
  setInterval(() => { if (!document.hidden) refresh(); }, 60000); // ages grow
  follow();
})();
