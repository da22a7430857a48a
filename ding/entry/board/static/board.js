// The page of `ding board`: asks for JSON every few seconds and draws what changed. What is chosen stands in the
// link, so that a reload or a colleague sees the same.

const POLL_MS = 3000;
const COLOURS = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#44bb99", "#777777", "#997700"];
const COLUMNS = [
  ["name", "run"], ["state", "state"], ["last_return", "return"], ["best_return", "best"], ["env_step", "env steps"],
  ["elapsed_s", "time"], ["policy", "policy"], ["env", "env"], ["seed", "seed"], ["train_iter", "iterations"],
];
const NUMBERS = new Set(["seed", "last_return", "best_return", "env_step", "train_iter", "elapsed_s"]);

const $ = (selector) => document.querySelector(selector);
const state = {
  runs: [], metrics: [], unread: 0, hidden: new Set(), charts: [""], sort: "name", down: false,
  filter: "", axis: "step", smoothing: 0, mean: false, log: false, open: null,
};
const plots = new Map();
const colours = new Map();

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.filter((child) => child !== null));
  return made;
}

async function ask(path, parameters = {}) {
  const response = await fetch(`/api/${path}?${new URLSearchParams(parameters)}`);
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  return response.json();
}

const number = (value) =>
  value === null || value === undefined ? "–"
    : Number.isInteger(value) ? value.toLocaleString("en") : value.toLocaleString("en", { maximumSignificantDigits: 4 });

function clock(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const [hours, minutes, rest] = [seconds / 3600, (seconds / 60) % 60, seconds % 60].map(Math.floor);
  return `${hours ? `${hours}:` : ""}${String(minutes).padStart(2, "0")}:${String(rest).padStart(2, "0")}`;
}

const shown = (key, value) => (key === "elapsed_s" ? clock(value) : typeof value === "number" ? number(value) : value ?? "–");

function colourOf(key) {
  if (!colours.has(key)) colours.set(key, COLOURS[colours.size % COLOURS.length]);
  return colours.get(key);
}

// -- what is listed, what is drawn ---------------------------------------------------------------------------------

function listed() {
  const words = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (run) => [run.name, run.env, run.policy, run.state].join(" ").toLowerCase();
  const runs = state.runs.filter((run) => words.every((word) => text(run).includes(word)));
  const order = (a, b) => {
    const [left, right] = [a[state.sort], b[state.sort]];
    // Runs without a value stand last, whichever the direction.
    if (left === null || right === null) return (left === null) - (right === null);
    const before = typeof left === "number" ? left - right : String(left).localeCompare(String(right), "en", { numeric: true });
    return state.down ? -before : before;
  };
  return runs.sort(order);
}

const drawn = () => listed().filter((run) => !state.hidden.has(run.id));

function remember() {
  const kept = { ...state, runs: undefined, metrics: undefined, unread: undefined, hidden: [...state.hidden] };
  history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify(kept))}`);
}

function recall() {
  try {
    const kept = JSON.parse(decodeURIComponent(location.hash.slice(1)) || "{}");
    for (const key of ["charts", "sort", "down", "filter", "axis", "smoothing", "mean", "log", "open"]) {
      if (typeof kept[key] === typeof state[key] || key === "open") state[key] = kept[key] ?? state[key];
    }
    state.hidden = new Set(kept.hidden ?? []);
  } catch {
    history.replaceState(null, "", "#"); // the link was cut off
  }
}

// -- the table of runs ---------------------------------------------------------------------------------------------

function drawTable() {
  const focused = document.activeElement?.dataset?.id;
  const runs = listed();
  $("#count").textContent =
    `${runs.length} of ${state.runs.length} runs, ${state.runs.filter((run) => run.state === "running").length} running`
    + (state.unread ? `, ${state.unread} more are being read` : "");
  const head = element("tr", {}, element("th"));
  for (const [key, title] of COLUMNS) {
    const arrow = state.sort === key ? (state.down ? " ▼" : " ▲") : "";
    const sort = element("button", { type: "button", textContent: title + arrow });
    sort.onclick = () => change({ sort: key, down: state.sort === key ? !state.down : NUMBERS.has(key) });
    const cell = element("th", { className: NUMBERS.has(key) ? "number" : "" }, sort);
    cell.ariaSort = state.sort === key ? (state.down ? "descending" : "ascending") : "none";
    head.append(cell);
  }
  $("#table thead").replaceChildren(head);
  $("#table tbody").replaceChildren(...runs.map(row));
  if (focused) document.querySelector(`tr[data-id="${focused}"]`)?.focus();
}

function row(run) {
  const tick = element("input", { type: "checkbox", checked: !state.hidden.has(run.id), ariaLabel: `draw ${run.name}` });
  tick.tabIndex = -1;
  tick.onclick = (event) => event.stopPropagation();
  tick.onchange = () => toggle(run.id);
  const swatch = element("span", { className: "swatch" });
  swatch.style.background = colourOf(state.mean ? run.label : run.id);
  const made = element("tr", { tabIndex: 0 }, element("td", {}, tick, " ", swatch));
  made.dataset.id = run.id;
  made.onclick = () => change({ open: run.id });
  for (const [key] of COLUMNS) {
    const content = key === "state" ? element("span", { className: `state ${run.state}`, textContent: run.state }) : shown(key, run[key]);
    made.append(element("td", { className: NUMBERS.has(key) ? "number" : "", title: key === "name" ? run.fault : "" }, content));
  }
  return made;
}

function toggle(id) {
  state.hidden.has(id) ? state.hidden.delete(id) : state.hidden.add(id);
  change({});
}

// -- the charts ----------------------------------------------------------------------------------------------------

function smooth(values) {
  // An exponential mean whose start is corrected, as Adam's moments are.
  let [mean, weight] = [0, 0];
  return values.map((value) => {
    mean = state.smoothing * mean + (1 - state.smoothing) * value;
    weight = state.smoothing * weight + 1 - state.smoothing;
    return mean / weight;
  });
}

function drawFrames() {
  const wanted = state.charts.map((metric, place) => frame(metric, place));
  for (const plot of plots.values()) plot.destroy();
  plots.clear();
  $("#charts").replaceChildren(...wanted);
}

function frame(metric, place) {
  const choice = element("select", { ariaLabel: "metric" }, ...state.metrics.map((name) => new Option(name, name, false, name === metric)));
  choice.onchange = () => change({ charts: state.charts.with(place, choice.value) }, true);
  const close = element("button", { type: "button", textContent: "Remove", hidden: state.charts.length === 1 });
  close.onclick = () => change({ charts: state.charts.toSpliced(place, 1) }, true);
  const made = element("div", { className: "chart" }, element("header", {}, choice, close), element("div"), element("p"));
  made.dataset.place = place;
  return made;
}

async function drawCharts() {
  const runs = drawn();
  const ids = runs.map((run) => run.id).join(",");
  const names = new Map(runs.map((run) => [run.id, run.name]));
  await Promise.all(state.charts.map(async (metric, place) => {
    const parameters = { metric, axis: state.axis, runs: ids, mean: state.mean ? "1" : "0" };
    const { curves } = ids && metric ? await ask("curves", parameters) : { curves: [] };
    const box = document.querySelector(`.chart[data-place="${place}"]`);
    if (box) drawChart(box, place, curves, names);
  }));
}

function drawChart(box, place, curves, names) {
  const series = [{}];
  const tables = [];
  const bands = [];
  for (const curve of curves) {
    const colour = colourOf(curve.label ?? curve.id);
    const line = { stroke: colour, width: 1.5, spanGaps: true, points: { show: curve.x.length < 2 } };
    if (curve.label === undefined) {
      series.push({ ...line, label: names.get(curve.id) });
      tables.push([curve.x, smooth(curve.y)]);
      continue;
    }
    const first = series.length;
    const edge = { class: "band", stroke: "transparent", spanGaps: true, points: { show: false } };
    series.push({ ...line, label: `${curve.label} (${curve.runs})` }, { ...edge, label: "to (95 %)" }, { ...edge, label: "from (95 %)" });
    bands.push({ series: [first + 1, first + 2], fill: `${colour}33` });
    tables.push([curve.x, smooth(curve.iqm), smooth(curve.high), smooth(curve.low)]);
  }
  const data = tables.length ? uPlot.join(tables) : [[], []];
  const ink = getComputedStyle(document.body).getPropertyValue("color");
  const axis = { stroke: ink, grid: { stroke: "#8883", width: 1 }, ticks: { stroke: "#8886", width: 1 } };
  const options = {
    width: Math.max(200, box.clientWidth), height: 300, series: tables.length ? series : [{}, {}], bands,
    scales: { x: { time: false }, y: { distr: state.log ? 3 : 1 } },
    axes: [{ ...axis, label: $("#axis").selectedOptions[0].text }, { ...axis, size: 64 }],
    legend: { live: tables.length <= 12 }, cursor: { focus: { prox: 16 } }, focus: { alpha: 0.25 },
  };
  const old = plots.get(place);
  const key = JSON.stringify([series.map((one) => one.label), options.width, state.log, state.axis, ink]);
  if (old?.key === key) {
    old.setData(data);
  } else {
    old?.destroy();
    const plot = new uPlot(options, data, box.children[1]);
    plot.key = key;
    plots.set(place, plot);
  }
  const wrong = curves.filter((curve) => curve.nonfinite);
  box.lastChild.textContent = !tables.length ? "No drawn run has values of this metric over this axis."
    : wrong.map((curve) => `${names.get(curve.id)}: values that are not finite: ${curve.nonfinite}`).join("; ");
}

// -- config differences, and all about one run ---------------------------------------------------------------------

async function drawDifferences() {
  const runs = drawn();
  const configs = runs.length > 1 ? await ask("configs", { runs: runs.map((run) => run.id).join(",") }) : {};
  const keys = [...new Set(Object.values(configs).flatMap(Object.keys))].filter((key) => !/(^exp_name|cfg_type)$/.test(key)).sort();
  const text = (run, key) => JSON.stringify(configs[run.id]?.[key]) ?? "–";
  const differing = keys.filter((key) => new Set(runs.map((run) => text(run, key))).size > 1);
  $("#differences").hidden = !differing.length;
  const head = element("tr", {}, element("th", { textContent: "run" }), ...differing.map((key) => element("th", { textContent: key })));
  const rows = runs.map((run) =>
    element("tr", {}, element("th", { textContent: run.name }), ...differing.map((key) => element("td", { textContent: text(run, key) }))));
  $("#differences table").replaceChildren(element("thead", {}, head), element("tbody", {}, ...rows));
}

async function drawDetail() {
  const box = $("#detail");
  box.hidden = !state.runs.some((run) => run.id === state.open);
  if (box.hidden) return;
  const run = await ask(`run/${state.open}`);
  const log = box.querySelector("select")?.value;
  const close = element("button", { type: "button", textContent: "Close" });
  close.onclick = () => change({ open: null });
  const parts = [facts(run), roles(run), ledger(run), config(run), await logs(run, log), videos(run)];
  const playing = box.querySelector("video") && !box.querySelector("video").paused;
  if (playing) return; // do not interrupt who watches
  const opened = [...box.querySelectorAll("details")].map((one) => one.open);
  box.replaceChildren(element("h2", {}, run.name, " ", close),
    run.fault ? element("p", { className: "fault", textContent: run.fault }) : "", element("div", { className: "columns" }, ...parts));
  box.querySelectorAll("details").forEach((one, place) => { one.open = opened[place] ?? one.open; });
}

function facts(run) {
  const status = run.status;
  const rates = run.rates ?? {};
  const report = status.report ?? {};
  const connected = Object.values(report.workers ?? {}).filter((worker) => worker.role === "collector").length;
  const pairs = [
    ["state", run.state], ["end", status.sentence], ["env step", `${number(run.env_step)} (${number(rates.env_step)}/s)`],
    ["train iter", `${number(run.train_iter)} (${number(rates.train_iter)}/s)`],
    ["return", `${number(run.last_return)} (best ${number(run.best_return)}, wanted ${number(status.stop_value)})`],
    ["buffer", `${number(status.buffer_rows)} of ${number(status.buffer_size)} (${number(rates.pushed_rows)} in/s)`],
    ["samples per insert", status.pushed_rows ? number(status.sampled_rows / status.pushed_rows) : "–"],
    ["collectors", report.collectors_wanted ? `${connected} of ${report.collectors_wanted} are connected` : ""],
    ["alarm", report.alarm],
    ["time", `${clock(run.elapsed_s)}, left ${clock(rates.left_s)}`],
  ].filter(([, value]) => value);
  const list = element("dl", {}, ...pairs.flatMap(([key, value]) => [element("dt", { textContent: key }), element("dd", { textContent: value })]));
  if (run.share !== null && run.share !== undefined) list.append(element("dt", { textContent: "done" }), element("dd", {}, element("progress", { value: run.share })));
  return list;
}

function roles(run) {
  const processes = Object.entries(run.status.processes ?? {});
  if (!processes.length) return null;
  const titles = ["role", "state", "does", "pid", "restarts", "up", "policy lag", "last end"];
  const rows = processes.map(([name, process]) => {
    const worker = run.status.workers?.[name] ?? {};
    const cells = [name, process.state, worker.does, process.pid, process.restarts, clock(process.uptime_s), number(worker.version_lag), process.last_end];
    return element("tr", {}, ...cells.map((cell) => element("td", { textContent: cell ?? "–" })));
  });
  const head = element("tr", {}, ...titles.map((title) => element("th", { textContent: title })));
  return element("table", { id: "roles" }, element("thead", {}, head), element("tbody", {}, ...rows));
}

const folded = (title, ...content) => element("details", {}, element("summary", { textContent: title }), ...content);

function ledger(run) {
  const report = Object.keys(run.status.report ?? {}).length ? run.status.report : run.result;
  return Object.keys(report ?? {}).length ? folded("Report", element("pre", { textContent: JSON.stringify(report, null, 2) })) : null;
}

function config(run) {
  const lines = Object.entries(run.config).map(([key, value]) => `${key}: ${JSON.stringify(value)}`);
  return lines.length ? folded("Config", element("pre", { textContent: lines.join("\n") })) : null;
}

async function logs(run, chosen) {
  if (!run.logs.length) return null;
  const name = run.logs.includes(chosen) ? chosen : run.logs[0];
  const choice = element("select", { ariaLabel: "log" }, ...run.logs.map((one) => new Option(one, one, false, one === name)));
  choice.onchange = drawDetail;
  const response = await fetch(`/api/run/${run.id}/log/${name}`);
  return folded("Logs", choice, element("pre", { textContent: await response.text() }));
}

function videos(run) {
  const made = run.videos.map((name) => {
    const source = `/api/run/${run.id}/video/${name}`;
    const film = name.endsWith(".gif") ? element("img", { src: source, alt: name }) : element("video", { src: source, controls: true, preload: "metadata" });
    return element("figure", {}, film, element("figcaption", { textContent: name }));
  });
  return made.length ? folded("Videos", ...made) : null;
}

// -- what changes it all -------------------------------------------------------------------------------------------

async function draw(frames = false) {
  drawTable();
  if (frames) drawFrames();
  await Promise.all([drawCharts(), drawDifferences(), drawDetail()]);
}

function change(values, frames = false) {
  Object.assign(state, values);
  remember();
  return draw(frames).catch(report);
}

function report(error) {
  $("#count").textContent = `The board does not answer: ${error.message}`;
}

let [drawnRuns, drawnMetrics] = ["", ""];

async function poll() {
  try {
    const { runs, metrics, unread } = await ask("runs");
    Object.assign(state, { runs, metrics, unread });
    state.charts = state.charts.map((metric) => (metrics.includes(metric) ? metric : metrics[0] ?? ""));
    const [newRuns, newMetrics] = [JSON.stringify(runs), metrics.join()];
    if (unread && plots.size) {
      drawTable(); // the curves are drawn again when all runs are read
    } else if (newRuns !== drawnRuns || newMetrics !== drawnMetrics) {
      const fresh = newMetrics !== drawnMetrics || !plots.size;
      [drawnRuns, drawnMetrics] = [newRuns, newMetrics];
      await draw(fresh);
    }
  } catch (error) {
    report(error);
  }
  setTimeout(poll, state.unread ? 0 : POLL_MS);
}

const inputs = { filter: "value", axis: "value", smoothing: "valueAsNumber", mean: "checked", log: "checked" };
const KEYS = {
  "/": () => $("#filter").focus(),
  j: () => step(1),
  k: () => step(-1),
  " ": () => focusedId() && toggle(focusedId()),
  Enter: () => focusedId() && change({ open: focusedId() }),
  a: () => change({ hidden: new Set(drawn().length ? listed().map((run) => run.id) : []) }),
  x: () => { $("#axis").selectedIndex = ($("#axis").selectedIndex + 1) % 3; change({ axis: $("#axis").value }); },
  m: () => { $("#mean").checked = !state.mean; change({ mean: !state.mean }); },
  Escape: () => change({ open: null }),
  "?": () => $("#keys").showModal(),
};
const focusedId = () => document.activeElement?.dataset?.id;

function step(by) {
  const rows = [...document.querySelectorAll("#table tbody tr")];
  const at = rows.indexOf(document.activeElement);
  rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? 0 : at + by))]?.focus();
}

recall();
for (const [id, property] of Object.entries(inputs)) {
  $(`#${id}`)[property] = state[id];
  $(`#${id}`).addEventListener(id === "filter" || id === "smoothing" ? "input" : "change", (event) => change({ [id]: event.target[property] }));
}
$("#add").onclick = () => change({ charts: [...state.charts, state.metrics[0] ?? ""] }, true);
$("#help").onclick = () => $("#keys").showModal();
addEventListener("resize", () => drawCharts().catch(report));
addEventListener("keydown", (event) => {
  const typing = event.target.matches("input:not([type=checkbox]), select, button, summary, video");
  if ($("#keys").open || event.ctrlKey || event.metaKey || event.altKey || (typing && event.key !== "Escape") || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
});
poll();
