(() => {
  "use strict";
  const reason = document.getElementById("reason");
  const rows = [...document.querySelectorAll(".row.epochs, .row.lane")].map((row) => [...row.querySelectorAll("[data-text]")]);
  const all = rows.flat();
  const show = (el) => {
    reason.textContent = el.dataset.text;
    reason.className = "set";
  };
  // Where the panel works, the browser's own box would only cover the picture.
  for (const el of all) {
    el.removeAttribute("title");
    el.addEventListener("mouseenter", () => show(el));
    el.addEventListener("focus", () => {
      show(el);
      hold(el);
    });
  }
  // One stop for Tab in each row; the arrow keys walk within it and between rows.
  const hold = (el) => {
    const row = rows.find((r) => r.includes(el));
    for (const other of row) other.tabIndex = other === el ? 0 : -1;
  };
  for (const row of rows) if (row.length) hold(row[0]);
  const middle = (el) => {
    const box = el.getBoundingClientRect();
    return box.left + box.width / 2;
  };
  const nearest = (row, el) => row.reduce((best, o) => (Math.abs(middle(o) - middle(el)) < Math.abs(middle(best) - middle(el)) ? o : best));
  document.querySelector("main").addEventListener("keydown", (e) => {
    const at = rows.findIndex((r) => r.includes(e.target));
    if (at < 0) return;
    const row = rows[at];
    const i = row.indexOf(e.target);
    const filled = (from, step) => {
      for (let j = from + step; j >= 0 && j < rows.length; j += step) if (rows[j].length) return nearest(rows[j], e.target);
      return null;
    };
    const to = {
      ArrowRight: () => row[i + 1],
      ArrowLeft: () => row[i - 1],
      Home: () => row[0],
      End: () => row[row.length - 1],
      ArrowDown: () => filled(at, 1),
      ArrowUp: () => filled(at, -1),
    }[e.key];
    if (!to) return;
    e.preventDefault();
    const next = to();
    if (next) next.focus();
  });
  const zoom = document.getElementById("zoom");
  zoom.parentElement.hidden = false;
  zoom.addEventListener("input", () => document.documentElement.style.setProperty("--zoom", zoom.value));
  // A link to a span, as in page.html#s12, opens with its reason.
  const open = () => {
    const el = document.getElementById(location.hash.slice(1));
    if (el && all.includes(el)) {
      el.focus();
      show(el);
      hold(el);
    }
  };
  addEventListener("hashchange", open);
  open();
  document.documentElement.dataset.ready = String(all.length);
})();
