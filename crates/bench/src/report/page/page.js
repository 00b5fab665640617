
// The page: everything that is shown is made here from the two blocks of JSON, and all text that came
// with the contest is set as text, never as markup.

const contest = JSON.parse(document.getElementById("contest").textContent);
const derived = JSON.parse(document.getElementById("derived").textContent);
const { contestants, phases } = derived.figures;
const several = contestants.length > 1;
const state = { shown: contestants.map(() => true), repeat: null };
const plots = [];

addEventListener("error", (event) => { document.body.dataset.error = event.message; });
addEventListener("securitypolicyviolation", (event) => {
  document.body.dataset.error = "policy: " + event.violatedDirective;
});

// An element with properties, attributes (written with a dash or `data`) and children. All text passes here.
function make(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, given] of Object.entries(properties || {})) {
    const value = typeof given === "string" ? visible(given) : given;
    if (name === "class") element.className = value;
    else if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null).map((child) => (typeof child === "string" ? visible(child) : child)));
  return element;
}

function key(index) {
  return make("span", { class: "key k" + (index % 6), "aria-hidden": "true" });
}

// What belongs to a contestant disappears with it.
function owned(element, index) {
  element.setAttribute("data-contestant", index);
  return element;
}

function title(phase) {
  return phase.occurrence ? `${phase.name} (${phase.occurrence + 1})` : phase.name;
}

function figure(phase, identifier) {
  return phase.figures.find((one) => one.identifier === identifier);
}

function grouped(count) {
  return String(count).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

// The phase of the repeat that is shown: the chosen one, or the one in the middle. A contestant has a
// run for each regime in each repeat, and the phase is in one of them.
function outcome(phase, index) {
  const repeat = state.repeat ?? phase.median_repeat[index];
  const runs = contest.runs.filter((one) => one.store === contestants[index] && one.repeat === repeat);
  return runs.map((run) => run.phases.filter((one) => one.name === phase.name)[phase.occurrence]).find(Boolean);
}

function card(name, heading, note, ...content) {
  const caption = make("figcaption", {}, make("h3", { textContent: heading }), make("span", { textContent: note }));
  return make("figure", { class: "card", "data-plot": name }, caption, ...content);
}

// Bars, one a contestant, with whiskers from the least to the greatest repeat.
function bars(phase, identifier, heading) {
  const data = figure(phase, identifier);
  if (!data) return null;
  const body = make("div", { class: "bars" });
  const most = Math.max(...data.cells.map((cell) => (cell ? cell.most : 0))) || 1;
  data.cells.forEach((cell, index) => {
    const best = several && data.best === index ? " best" : "";
    const track = make("div", { class: "track k" + (index % 6) });
    if (cell) track.append(fill(cell, most), whisker(cell, most));
    const text = cell ? cell.text : "–";
    body.append(owned(make("div", { class: "name" + best, textContent: contestants[index], title: contestants[index] }), index),
      owned(track, index), owned(make("div", { class: "value" + best, textContent: text }), index));
  });
  const note = NOTES[identifier] || (data.better === "higher" ? "more is better" : "less is better");
  const result = card(identifier, heading || data.label, note, body);
  result.dataset.points = data.cells.filter(Boolean).length;
  return result;
}

function fill(cell, most) {
  const element = make("div", { class: "fill" });
  element.style.width = (100 * cell.median) / most + "%";
  return element;
}

function whisker(cell, most) {
  if (cell.repeats < 2) return "";
  const element = make("div", { class: "whisker" });
  element.style.left = (100 * cell.least) / most + "%";
  element.style.width = (100 * (cell.most - cell.least)) / most + "%";
  return element;
}

// Percentiles of one kind of operation on a line a contestant, logarithmic.
const PERCENTILES = ["p50", "p99", "p99.9", "max"];

function percentiles(phase, kind) {
  const words = kind.replaceAll("_", "-");
  const rows = PERCENTILES.map((name) => figure(phase, words + "." + name)).filter(Boolean);
  const values = rows.flatMap((row) => row.cells.filter(Boolean).map((cell) => cell.median)).filter((value) => value > 0);
  if (!values.length) return null;
  const low = Math.floor(Math.log10(Math.min(...values))), high = Math.ceil(Math.log10(Math.max(...values)));
  const place = (value) => (100 * (Math.log10(value) - low)) / Math.max(high - low, 1) + "%";
  const decades = Array.from({ length: high - low + 1 }, (unused, step) => Math.pow(10, low + step));
  const body = make("div", { class: "dots" });
  contestants.forEach((name, index) => body.append(owned(percentileLine(rows, index, name, place, decades), index)));
  const scale = make("div", { class: "scale" }, ...decades.map((value) => placed("span", "", place(value), time(value))));
  body.append(make("div", { class: "line" }, make("span"), scale));
  const marks = PERCENTILES.map((text, step) => make("span", {}, make("i", {}, make("b", { class: "dot p" + step })), text));
  const result = card("percentiles." + kind, `Percentiles of ${words}`, "median of the repeats; left is better", body,
    make("div", { class: "marks" }, ...marks));
  result.dataset.points = values.length;
  return result;
}

function percentileLine(rows, index, name, place, decades) {
  const strip = make("div", { class: "strip k" + (index % 6) }, ...decades.map((value) => placed("div", "tick", place(value))));
  const cells = rows.map((row) => row.cells[index]);
  const known = cells.filter((cell) => cell && cell.median > 0);
  if (known.length) {
    const span = placed("div", "span", place(known[0].median));
    span.style.right = `calc(100% - ${place(known[known.length - 1].median)})`;
    strip.append(span);
  }
  cells.forEach((cell, step) => {
    if (!cell || cell.median <= 0) return;
    const dot = placed("div", "dot p" + step, place(cell.median));
    dot.title = `${PERCENTILES[step]}: ${cell.text}`;
    strip.append(dot);
  });
  return make("div", { class: "line" }, make("span", { class: "name", textContent: name, title: name }), strip);
}

function placed(tag, name, left, text) {
  const element = make(tag, { class: name, textContent: text || "" });
  element.style.left = left;
  return element;
}

// A plot of lines as a card; it is built once the card is in the page and has a width.
function lineCard(name, heading, note, wide, describe) {
  const body = make("div", { role: "img", "aria-label": `${heading}, ${note}; the figures are in the table of this phase` });
  const element = card(name, heading, note, body);
  if (wide) element.classList.add("wide");
  plots.push({ start: (plot) => {
    const rebuild = linePlot(body, describe);
    const tell = () => {
      element.dataset.points = body.dataset.points;
      element.classList.toggle("empty", body.dataset.points === "0");
    };
    plot.update = () => { rebuild(); tell(); };
    tell();
  } });
  return element;
}

function timePlots(phase, number) {
  return OVER_TIME.map((kind) => {
    const element = lineCard(kind.name, kind.title, kind.unit, kind.wide, () => {
      const outcomes = contestants.map((name, index) => outcome(phase, index));
      const tables = outcomes.map((one) => one && columns(one.timeline, kind.value));
      const activity = outcomes.map((one, index) => ({
        index, marks: one && state.shown[index] ? one.marks : [], gapAt: one ? one.longest_gap_at_s : 0,
      }));
      const options = timeOptions(kind, contestants, state.shown, activity, "phase" + number);
      return { options, tables, height: kind.wide ? 280 : 220 };
    });
    if (kind.lanes) {
      element.append(make("p", { class: "lanes", textContent: "Above the plot, each contestant that tells what it does has a lane: " +
        "ticks are flushes, pale bars compactions, red bars (and veils) stalls, ▾ its longest gap. Drag to zoom, double-click to see all." }));
    }
    return element;
  });
}

function distribution(phase, kind) {
  const words = kind.replaceAll("_", "-");
  return lineCard("cdf." + kind, `Latency of ${words}`, "operations that took at most so long; left is better", false, () => {
    const latencies = contestants.map((name, index) => outcome(phase, index)?.latencies[kind]);
    const tables = latencies.map((one) => one && nines(one.cdf));
    return { options: distributionOptions(contestants, state.shown), tables, height: 240 };
  });
}

// Where the time of a contestant's operations went, if it watches itself: a card for each path that was
// taken, a bar for each of its stages.
function stages(phase) {
  const cards = contestants.flatMap((name, index) => {
    const runs = contest.runs.filter((one) => one.store === name);
    const outcomes = runs.map((run) => run.phases.filter((one) => one.name === phase.name)[phase.occurrence]);
    const profiles = outcomes.map((one) => one?.time_profile).filter(Boolean);
    const taken = profiles.flatMap((profile) => profile.paths).filter((path) => path.stages.length);
    return [...new Set(taken.map((path) => path.path))].map((path) => stageCard(phase, index, path));
  });
  if (!cards.length) return [];
  return [make("h4", { textContent: "Where the time went, of all threads together" }), make("div", { class: "grid small" }, ...cards)];
}

function stageCard(phase, index, path) {
  const note = make("span"), body = make("div", { class: "bars" });
  const caption = make("figcaption", {}, make("h3", { textContent: `${contestants[index]}: ${path}` }), note);
  const element = owned(make("figure", { class: "card", "data-plot": "stages." + path }, caption, body), index);
  const show = () => {
    const found = outcome(phase, index)?.time_profile?.paths.find((one) => one.path === path);
    const known = found?.stages ?? [];
    const each = (seconds) => time((1e6 * seconds) / Math.max(found.operations, 1));
    const most = Math.max(...known.map((stage) => stage.share)) || 1;
    const about = found?.one_in > 1 ? "about " : "";
    note.textContent = known.length ? `${each(found.seconds)} each, ${about}${grouped(found.operations)} of them` : "not in this repeat";
    body.replaceChildren(...known.flatMap((stage) => [
      make("div", { class: "name", textContent: stage.stage, title: stage.stage }),
      make("div", { class: "track k" + (index % 6) }, fill({ median: stage.share }, most)),
      make("div", { class: "value", textContent: `${(100 * stage.share).toFixed(1)} %, ${each(stage.seconds)}` }),
    ]));
    element.dataset.points = known.length;
  };
  plots.push({ start: (plot) => { plot.update = show; show(); } });
  return element;
}

const COSTS = ["longest_gap", "processor", "write_amplification", "device_write_amplification", "read_amplification",
  "device_reads", "space_amplification", "resident", "cgroup"];
const NOTES = { resident: "mapped files included, page cache not; less is better" };

function phaseSection(phase, number) {
  const pace = phase.rate ? `open loop, ${shortNumber(phase.rate)} operations/s asked for` : "closed loop";
  const about = `${grouped(phase.operations)} operations · ${phase.clients} client${phase.clients === 1 ? "" : "s"} · ${pace}`;
  return make("section", { id: "phase-" + number },
    make("h2", { textContent: title(phase) }), make("p", { class: "faint", textContent: about }),
    make("p", { class: "lead", textContent: phase.summary }),
    make("h4", { textContent: "Over time" }), make("div", { class: "grid thirds" }, ...timePlots(phase, number)),
    make("h4", { textContent: "Latency" }),
    make("div", { class: "grid" }, ...phase.kinds.flatMap((kind) => [distribution(phase, kind), percentiles(phase, kind)])),
    ...stages(phase),
    make("h4", { textContent: "Costs" }),
    make("div", { class: "grid small" }, ...COSTS.map((identifier) => bars(phase, identifier))),
    make("h4", { textContent: "All figures" }), figureTable(phase));
}

// Tables.

function table(name, head, rows) {
  const header = make("thead", {}, make("tr", {}, ...head.map((text) => make("th", { scope: "col" }, text))));
  const element = make("table", { class: "figures " + name }, header, make("tbody", {}, ...rows));
  return make("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "table" }, element);
}

function figureTable(phase) {
  const rows = phase.figures.map((data) => {
    const cells = data.cells.map((cell, index) => {
      const best = several && data.best === index;
      return make("td", { class: best ? "best" : "" }, cell ? cell.text : "–",
        cell && cell.range ? make("small", { textContent: cell.range }) : null);
    });
    const advantage = data.advantage == null ? "–" : data.advantage.toFixed(data.advantage < 9.995 ? 2 : 1) + "×";
    return make("tr", {}, make("th", { scope: "row", textContent: data.label }), ...cells,
      several ? make("td", { textContent: advantage }) : null);
  });
  const versus = several ? [`${contestants[0]} vs best other`] : [];
  const names = contestants.map((name, index) => (phase.pace_not_kept[index] ? `${name} (pace not kept)` : name));
  return table("", ["", ...names, ...versus], rows);
}

function pairTable(heading, pairs) {
  const rows = pairs.map(([name, value]) => make("tr", {}, make("th", { scope: "row", textContent: name }), make("td", { textContent: value })));
  return make("div", {}, make("h4", { textContent: heading }), table("words", ["", ""], rows));
}

function settingsTable() {
  const told = derived.settings.map((pairs) => new Map(pairs));
  const names = [...new Set(told.flatMap((settings) => [...settings.keys()]))];
  const rows = names.map((name) => {
    const differs = new Set(told.map((settings) => settings.get(name))).size > 1;
    const cells = told.map((settings) => make("td", { class: differs ? "differs" : "", textContent: settings.get(name) ?? "–" }));
    return make("tr", {}, make("th", { scope: "row", textContent: name }), ...cells);
  });
  return make("div", {}, make("h4", { textContent: "Settings; in bold where they differ" }), table("words", ["", ...contestants], rows));
}

// The frame: head, bar, summary, conditions.

function head() {
  const repeats = new Set(contest.runs.map((run) => run.repeat)).size;
  const note = `${contestants.length} contestants, ${repeats} repeat${repeats === 1 ? "" : "s"}; figures are medians, with the least and the most.`;
  document.getElementById("head").append(make("h1", { textContent: derived.heading }),
    make("p", { textContent: derived.place }), make("code", { class: "command", textContent: contest.command }), make("p", { class: "faint", textContent: note }),
    ...derived.failures.map((text) => make("p", { class: "failed", role: "alert", textContent: text })));
}

function bar() {
  const link = (id, text) => make("a", { href: "#" + id, textContent: text });
  const links = make("div", {}, link("summary", "Summary"), ...phases.map((phase, number) => link("phase-" + number, title(phase))),
    link("conditions", "Conditions"));
  const chips = make("div", { class: "chips", role: "group", "aria-label": "Contestants shown" }, ...contestants.map(chip), repeatChoice());
  document.getElementById("bar").append(links, chips);
}

function chip(name, index) {
  const button = make("button", { type: "button", "aria-pressed": "true" }, key(index), name);
  button.addEventListener("click", () => {
    state.shown[index] = !state.shown[index];
    button.setAttribute("aria-pressed", state.shown[index]);
    document.querySelectorAll(`[data-contestant="${index}"]`).forEach((one) => one.classList.toggle("off", !state.shown[index]));
    update();
  });
  return button;
}

function repeatChoice() {
  const repeats = [...new Set(contest.runs.map((run) => run.repeat))].sort((left, right) => left - right);
  if (repeats.length < 2) return null;
  const choice = make("select", {}, make("option", { value: "", textContent: "the median" }),
    ...repeats.map((repeat) => make("option", { value: repeat, textContent: repeat + 1 })));
  choice.addEventListener("change", () => {
    state.repeat = choice.value === "" ? null : Number(choice.value);
    update();
  });
  return make("label", {}, "repeat in line plots and stages ", choice);
}

function summary() {
  const sentences = phases.map((phase, number) =>
    make("li", {}, make("a", { href: "#phase-" + number, textContent: title(phase) }), phase.summary));
  const overview = phases.map((phase) => {
    const data = figure(phase, phase.decisive);
    return data ? bars(phase, phase.decisive, `${title(phase)}: ${data.label}`) : null;
  });
  return make("section", { id: "summary" }, make("h2", { textContent: "Summary" }), make("ul", { class: "sentences" }, ...sentences),
    make("div", { class: "grid small" }, ...overview));
}

function conditions() {
  return make("section", { id: "conditions" }, make("h2", { textContent: "Conditions" }),
    make("div", { class: "grid" }, pairTable("The same for all", contest.conditions), pairTable("Machine", derived.machine)),
    settingsTable());
}

function foot() {
  const save = make("button", { type: "button", textContent: "Save the data as JSON" });
  save.addEventListener("click", () => {
    const blob = new Blob([document.getElementById("contest").textContent], { type: "application/json" });
    make("a", { href: URL.createObjectURL(blob), download: "contest.json" }).click();
  });
  document.getElementById("foot").append(make("p", { class: "faint", textContent: "1 MB = 10⁶ bytes. What a phase costs is counted until " +
    "nothing is left to flush, merge or write back. Amplifications are bytes for one byte of keys and values. Resident memory: mapped files " +
    "included, page cache not. – is a figure that cannot be had here." }), save);
}

function update() {
  plots.forEach((plot) => plot.update());
}

function followScroll() {
  const links = [...document.querySelectorAll("#bar a")];
  const watcher = new IntersectionObserver((entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
    links.forEach((link) => link.toggleAttribute("aria-current", link.hash === "#" + entry.target.id));
  }), { rootMargin: "-20% 0px -70% 0px" });
  document.querySelectorAll("section").forEach((section) => watcher.observe(section));
}

// Paper has its own colours and width, whatever the screen has.
function followMedia() {
  const print = (on) => () => {
    document.documentElement.toggleAttribute("data-print", on);
    update();
  };
  addEventListener("beforeprint", print(true));
  addEventListener("afterprint", print(false));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", update);
}

// What tests ask of a page that has been drawn.
function report() {
  const { dataset } = document.body;
  dataset.scrollWidth = document.documentElement.scrollWidth;
  dataset.innerWidth = innerWidth;
  dataset.resources = performance.getEntriesByType("resource").length;
  dataset.dark = matchMedia("(prefers-color-scheme: dark)").matches;
  dataset.ready = "true";
}

head();
bar();
document.getElementById("main").append(summary(), ...phases.map(phaseSection), conditions());
foot();
plots.forEach((plot) => plot.start(plot));
followScroll();
followMedia();
requestAnimationFrame(() => setTimeout(report, 0));
