"use strict";
// Searching, sorting and reading values; without it the page still has everything.
const rows = [...document.querySelectorAll("tbody tr")];
const texts = rows.map((row) => [...row.cells].map((cell) => cell.textContent.toLowerCase()).join("\n"));
const search = document.querySelector("input[type=search]");
const status = document.querySelector("[role=status]");

function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  rows.forEach((row, place) => {
    const fits = words.every((word) => texts[place].includes(word));
    row.hidden = !fits;
    shown += fits;
  });
  status.textContent = words.length ? `${shown} of ${rows.length} rows` : `${rows.length} rows`;
}

function sort(head) {
  const body = head.closest("table").tBodies[0];
  const isUp = head.getAttribute("aria-sort") !== "ascending";
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
  const value = (row) => {
    const cell = row.cells[head.cellIndex];
    return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
  };
  const compare = (one, other) => (typeof one === "number" && typeof other === "number" ? one - other : one < other ? -1 : one > other);
  const sorted = [...body.rows].map((row) => [value(row), row]).sort(([one], [other]) => compare(one, other));
  body.append(...(isUp ? sorted : sorted.reverse()).map(([, row]) => row));
}

function read(plot) {
  const { points, left, right, from, to, size, unit } = JSON.parse(plot.dataset.plot);
  const line = plot.querySelector(".cursor");
  const output = plot.parentNode.querySelector("output");
  let place = 0;
  const show = () => {
    const [at, value] = points[place];
    const x = left + ((at - from) / (to - from)) * (right - left);
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
    const time = new Date(at * 1000).toISOString().slice(0, 19).replace("T", " ");
    output.textContent = `${time} UTC: ${Number((value / size).toPrecision(3)).toLocaleString("en")} ${unit}`;
  };
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * plot.viewBox.baseVal.width;
    const at = from + ((x - left) / (right - left)) * (to - from);
    place = points.reduce((best, point, index) => (Math.abs(point[0] - at) < Math.abs(points[best][0] - at) ? index : best), 0);
    show();
  });
  plot.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    place = Math.min(points.length - 1, Math.max(0, place + step));
    show();
  });
}

if (search) search.addEventListener("input", filter);
for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => sort(button.closest("th")));
document.querySelectorAll("svg[data-plot]").forEach(read);
