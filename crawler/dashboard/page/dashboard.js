"use strict";

const byId = (id) => document.getElementById(id);
const token = document.querySelector("meta[name=token]").content;
const number = new Intl.NumberFormat("en");
const SERIES = [  // name, place in a point, class of the line
  ["pages a second", 1, ""], ["failed URLs a second", 2, "failed"],
  ["waiting URLs", 3, "waiting"], ["messages between ranks a second", 4, "messages"],
];
const BOUND = 1 + Number(document.querySelector("meta[name=balance]").content);
const HEATS = 8;  // shades of the matrix
const RANKS = [
  ["rank", (row) => row.rank],
  ["pages", (row) => number.format(row.pages)],
  ["pages/s", (row) => row.pages_per_second.toFixed(1)],
  ["errors", (row) => number.format(row.errors)],
  ["waiting", (row) => number.format(row.waiting)],
  ["open", (row) => row.fetching],
  ["resting", (row) => number.format(row.sites_resting)],
  ["failing", (row) => number.format(row.hosts_failing)],
  ["CPU", (row) => `${Math.round(100 * row.cpu)}%`],
  ["lag", (row) => `${row.lag_s.toFixed(2)} s`],
  ["memory", (row) => `${number.format(Math.round(row.memory / 1e6))} MB`],
  ["load", (row, mean) => mean ? share(row.pages / mean) : "-"],
  ["limited by", (row) => row.silent_s > 10 ? `silent ${Math.round(row.silent_s)} s` : row.bound],
];
const SITES = [
  ["site", (site) => site.site],
  ["pages", (site) => number.format(site.pages)],
  ["bytes", (site) => `${number.format(Math.round(site.bytes / 1e3) / 1e3)} MB`],
  ["a page takes", (site) => `${site.seconds.toFixed(3)} s`],
  ["by", (site) => `rank ${site.ranks.join(", ")}`],
];
const MOST_GROUPS = 32;  // rows of the matrix; ranks are taken together if there are more
const MOST_POINTS = 1200;
const OVER = new Set(["ended", "stopping", "reporting"]);

let points = [];  // as the server makes them: see SERIES

function share(load) {  // against the average; the bound is that of the report
  return `${Math.round(100 * load)}%${load > BOUND ? " over" : ""}`;
}

function element(name, text = "", attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function fill(table, labels, rows) {
  table.closest("section").hidden = !rows.length;
  table.tBodies[0].replaceChildren(...rows.map((cells) => {
    const row = document.createElement("tr");
    row.append(...cells.map((cell, at) => element("td", cell, {
      "data-label": labels[at],
      ...(/^[\d,.]+( s| MB|%|% over)?$/.test(cell) ? { class: "number" } : {}),
    })));
    return row;
  }));
}

function show({ status, head, first, point }) {
  points.push(point);
  if (points.length > MOST_POINTS) points = points.filter((_, at) => at % 2 === 0);
  draw(status.ranks);
  findings(first);
  byId("session").textContent = status.session;
  document.title = `${status.state}: ${status.session}`;
  byId("head").replaceChildren(...head.map(([word, says]) => {
    const fact = document.createElement("div");
    const [, value, more] = says.match(/^(.*?)((?:[,:;] | of ).*)?$/);
    fact.append(element("dt", word), element("dd", value, { class: "value" }));
    if (more) fact.append(element("dd", more.replace(/^[,:;] /, "")));
    return fact;
  }));
  for (const id of ["pause", "continue", "stop"]) byId(id).disabled = OVER.has(status.state);
  byId("pause").disabled ||= status.state === "paused";
  byId("continue").disabled ||= status.state !== "paused";
  const crawling = status.rows.filter((row) => row.connections);
  const mean = crawling.reduce((sum, row) => sum + row.pages, 0) / Math.max(1, crawling.length);
  fill(byId("ranks"), RANKS.map(([name]) => name), status.rows.map(
    (row) => RANKS.map(([, cell]) => String(cell(row, mean)))));
  matrix(status.rows);
  fill(byId("largest"), SITES.map(([name]) => name), status.largest_sites.map(
    (site) => SITES.map(([, cell]) => cell(site))));
  fill(byId("slowest"), SITES.map(([name]) => name), status.slowest_sites.map(
    (site) => SITES.map(([, cell]) => cell(site))));
  fill(byId("failures"), ["reason", "URLs"], Object.entries(status.by_failure)
    .sort(([, one], [, other]) => other - one)
    .map(([reason, count]) => [reason, number.format(count)]));
  fill(byId("troubles"), ["time", "reason", "URL", "why"], [...status.troubles].reverse().map(
    (one) => [new Date(1000 * one.time).toLocaleTimeString(), one.error, one.url, one.why]));
}

function matrix(rows) {
  const size = Math.ceil(rows.length / MOST_GROUPS);
  const groups = [];
  for (let first = 0; first < rows.length; first += size) {
    groups.push(rows.slice(first, first + size).map((row) => row.rank));
  }
  const groupOf = new Map(groups.flatMap((ranks, at) => ranks.map((rank) => [rank, at])));
  const sent = groups.map(() => groups.map(() => 0));
  for (const row of rows) {
    for (const [to, urls] of Object.entries(row.urls_to)) {
      const at = groupOf.get(Number(to));
      if (at !== undefined) sent[groupOf.get(row.rank)][at] += urls;
    }
  }
  const most = Math.max(1, ...sent.flat());
  const names = groups.map(
    (ranks) => ranks.length > 1 ? `${ranks[0]}-${ranks[ranks.length - 1]}` : String(ranks[0]));
  const head = document.createElement("tr");
  head.append(element("th", "from, to", { scope: "col" }),
    ...names.map((name) => element("th", name, { scope: "col" })));
  const table = byId("matrix");
  table.closest("section").hidden = rows.length < 2;
  table.tHead.replaceChildren(head);
  table.tBodies[0].replaceChildren(...sent.map((counts, from) => {
    const row = document.createElement("tr");
    row.append(element("th", names[from], { scope: "row" }), ...counts.map((urls) => {
      const heat = urls ? { class: `h${Math.ceil(HEATS * urls / most)}` } : {};
      return element("td", urls ? number.format(urls) : "", heat);
    }));
    return row;
  }));
}

function graphic(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function clock(seconds) {
  const parts = [seconds / 3600, (seconds / 60) % 60, seconds % 60].map(Math.floor);
  return parts.map((part, at) => at ? String(part).padStart(2, "0") : part).join(":");
}

function chart([name, at, kind]) {
  const values = points.map((point) => point[at]);
  const most = Math.max(0, ...values);
  const scaled = most || 1;
  const last = values.length ? values[values.length - 1] : 0;
  const [first, end] = points.length ? [points[0][0], points[points.length - 1][0]] : [0, 0];
  const span = Math.max(1, end - first);
  const figure = element("figure", "", { class: "chart" });
  const scale = element("div", "", { class: "scale", "aria-hidden": "true" });
  scale.append(element("span", number.format(Math.round(10 * most) / 10)), element("span", "0"));
  const plot = graphic("svg", {  // the caption says it in words
    class: "plot low", viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true",
  });
  plot.append(graphic("polyline", { class: kind, points: points.map(
    (point) => `${100 * (point[0] - first) / span},${100 - 100 * point[at] / scaled}`).join(" ") }));
  const time = element("div", "", { class: "time", "aria-hidden": "true" });
  time.append(element("span", clock(first)), element("span", clock(end)));
  const caption = element("figcaption",
    `${name}: ${number.format(Math.round(10 * last) / 10)},`
    + ` at most ${number.format(Math.round(10 * most) / 10)}`);
  figure.append(scale, plot, time, caption);
  return figure;
}

function draw(ranks) {
  const shown = ranks > 1 ? SERIES : SERIES.filter(([, , kind]) => kind !== "messages");
  byId("charts").replaceChildren(...shown.map(chart));
}

function findings(first) {
  const list = byId("first");
  const told = JSON.stringify(first);
  if (list.dataset.told === told) return;  // so that nothing moves under a reader
  list.dataset.told = told;
  list.closest("section").hidden = !first.length;
  list.replaceChildren(...first.map(({ severity, title, cause, command, section }) => {
    const item = element("li", "", { class: severity });
    item.append(element("a", title, { href: `#${section}` }), element("p", cause));
    if (command) {
      const line = element("p");
      line.append(element("code", command));
      item.append(line);
    }
    return item;
  }));
}

function send(order, body) {
  return fetch(order, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Token": token },
    body: JSON.stringify(body),
  });
}

async function post(order, body = {}) {
  const answer = await send(order, body);
  byId("answer").textContent = await answer.text();
  return answer.ok;
}

for (const id of ["pause", "continue", "stop"]) {
  byId(id).addEventListener("click", () => post(id));
}
byId("add-seeds").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (await post("add-seeds", { seeds: byId("seeds").value })) byId("seeds").value = "";
});
byId("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  const list = byId("says");
  list.hidden = true;
  byId("asked").textContent = "Asking the ranks ...";
  const answer = await send("ask", { about: byId("about").value });
  if (!answer.ok) {
    byId("asked").textContent = await answer.text();
    return;
  }
  const { says } = await answer.json();
  byId("asked").textContent = `Answered at ${new Date().toLocaleTimeString()}.`;
  list.replaceChildren(...says.flatMap(
    ([word, said]) => [element("dt", word), element("dd", said)]));
  list.hidden = false;
});
for (const [id, columns] of [["ranks", RANKS], ["largest", SITES], ["slowest", SITES]]) {
  byId(id).tHead.rows[0].append(...columns.map(
    ([name]) => element("th", name, { scope: "col" })));
}

const events = new EventSource("events");
events.addEventListener("open", () => { byId("connection").textContent = ""; });
events.addEventListener("error", () => {
  byId("connection").textContent = "No connection: the crawl has ended, or can't be reached.";
});
events.addEventListener("series", (event) => { points = JSON.parse(event.data); });
events.addEventListener("message", (event) => show(JSON.parse(event.data)));
