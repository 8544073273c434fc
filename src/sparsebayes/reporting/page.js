"use strict";
// Everything works without this file but sorting, the toggle of colors and what points say.

// Colors: as the system has them, or the other way.
const root = document.documentElement;
const toggle = document.querySelector("button.theme");
const system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
const label = () => { toggle.textContent = isDark() ? "Light colors" : "Dark colors"; };
toggle.hidden = false;
label();
toggle.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  label();
});
system.addEventListener("change", label);

// Tables: a button in each head sorts by its column.
const original = new Map();
for (const table of document.querySelectorAll("table.sortable")) {
  original.set(table.id, [...table.tBodies[0].rows]);
  for (const head of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sort(table, head));
  }
}

function sort(table, head) {
  const place = head.cellIndex;
  const isText = head.classList.contains("t");
  const fallsFirst = isText ? "ascending" : "descending";
  const risesFirst = isText ? "descending" : "ascending";
  const order = head.getAttribute("aria-sort") === fallsFirst ? risesFirst : fallsFirst;
  const sign = order === "ascending" ? 1 : -1;
  const value = (row) => {
    const text = row.cells[place].textContent.trim();
    if (isText) return text;
    if (text === "infinite") return Infinity;
    if (text === "minus infinity") return -Infinity;
    return parseFloat(text);
  };
  const rows = [...table.tBodies[0].rows].map((row) => [value(row), row]);
  const isEmpty = (v) => v === "" || Number.isNaN(v);
  rows.sort(([a], [b]) => {
    if (isEmpty(a) || isEmpty(b)) return isEmpty(a) - isEmpty(b);
    if (isText) return sign * a.localeCompare(b, undefined, { numeric: true });
    return a === b ? 0 : sign * (a < b ? -1 : 1);
  });
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", order);
  table.tBodies[0].append(...rows.map(([, row]) => row));
}

// Pictures: the mark next to the pointer, or the next one by arrow keys, shows its row.
for (const figure of document.querySelectorAll("figure.plot")) {
  const rows = original.get(figure.dataset.table);
  const marks = [...figure.querySelectorAll(".marks > *")];
  if (!rows || marks.length === 0) continue;
  const table = document.getElementById(figure.dataset.table);
  const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent.trim());
  const stage = figure.querySelector(".stage");
  const svg = stage.querySelector("svg");
  const places = marks.map((mark) => {
    const box = mark.getBBox();
    return [box.x + box.width / 2, box.y + box.height / 2];
  });
  const near = figure.dataset.near;
  const walk = marks.map((_, k) => k);
  const axis = near === "y" ? 1 : 0;
  walk.sort((a, b) => places[a][axis] - places[b][axis]);
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("role", "status");
  stage.append(tip);
  stage.tabIndex = 0;
  stage.setAttribute("role", "group");
  stage.setAttribute("aria-label", `${svg.getAttribute("aria-label")}. Arrow keys go through its ${marks.length} marks.`);
  let current = -1;

  const show = (k) => {
    if (k === current) return;
    if (current >= 0) marks[current].classList.remove("on");
    current = k;
    tip.hidden = k < 0;
    if (k < 0) return;
    marks[k].classList.add("on");
    tip.replaceChildren(...[...rows[k].cells].map((cell, place) => {
      const line = document.createElement("div");
      line.textContent = `${heads[place]}: ${cell.textContent.trim()}`;
      return line;
    }));
    const scale = svg.clientWidth / svg.viewBox.baseVal.width;
    const x = places[k][0] * scale;
    const y = places[k][1] * scale;
    const left = x + 14 + tip.offsetWidth > stage.clientWidth ? x - 14 - tip.offsetWidth : x + 14;
    const room = Math.max(stage.clientWidth - tip.offsetWidth, 0);
    tip.style.left = `${Math.min(Math.max(left, 0), room)}px`;
    tip.style.top = `${Math.max(y - tip.offsetHeight - 10, 0)}px`;
  };

  const next = (event) => {
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    const at = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    let best = -1;
    let least = (near === "xy" ? 26 : 60) * Math.max(scale, 1);
    places.forEach((place, k) => {
      const far = near === "x" ? Math.abs(place[0] - at[0])
        : near === "y" ? Math.abs(place[1] - at[1])
          : Math.hypot(place[0] - at[0], place[1] - at[1]);
      if (far < least) [best, least] = [k, far];
    });
    show(best);
  };
  stage.addEventListener("pointermove", next);
  stage.addEventListener("pointerdown", next);
  stage.addEventListener("pointerleave", () => show(-1));
  stage.addEventListener("blur", () => show(-1));
  stage.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const at = current < 0 ? -1 : walk.indexOf(current);
    if (event.key === "Escape") show(-1);
    else if (event.key === "Home") show(walk[0]);
    else if (event.key === "End") show(walk[walk.length - 1]);
    else if (step) show(walk[at < 0 ? (step > 0 ? 0 : walk.length - 1) : (at + step + walk.length) % walk.length]);
    else return;
    event.preventDefault();
  });
}
