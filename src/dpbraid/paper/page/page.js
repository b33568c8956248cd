"use strict";
// Draws every panel from the data in the page: curves, bands, hover, zoom.
const data = JSON.parse(document.getElementById("data").textContent);
const NS = "http://www.w3.org/2000/svg";
const H = 330, LEFT = 66, RIGHT = 10, TOP = 10, BOTTOM = 42;
const hidden = new Set();
let excess = false; // G - G* on a logarithmic axis instead of G

function add(parent, name, attributes, text) {
  const node = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  parent.appendChild(node);
  return node;
}

function ticks(low, high, count) {
  const rough = (high - low) / count, unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((m) => m * unit >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-12); i++) {
    found.push(i * step);
  }
  return { found, digits: Math.max(0, Math.min(9, -Math.floor(Math.log10(step) + 1e-9))) };
}

function logTicks(low, high) {
  const found = [], wide = high - low > 2.5;
  for (let e = Math.floor(low); e <= Math.ceil(high); e++) {
    for (const m of wide ? [1] : [1, 2, 5]) {
      const t = e + Math.log10(m);
      if (t >= low && t <= high) found.push(t);
    }
  }
  return found;
}

const plain = (v) => (v === null ? "diverged" : String(Number(v.toPrecision(7))));

class Chart {
  constructor(figure) {
    this.figure = figure;
    this.panel = data.panels[figure.dataset.panel];
    this.curves = this.panel.curves;
    this.zoom = null;
    this.svg = figure.querySelector("svg");
    this.tip = document.createElement("div");
    this.tip.className = "tip";
    this.tip.hidden = true;
    this.reset = document.createElement("button");
    this.reset.className = "reset";
    this.reset.textContent = "whole panel";
    this.reset.hidden = true;
    figure.append(this.tip, this.reset);
    this.reset.addEventListener("click", () => this.zoomTo(null));
    this.svg.addEventListener("dblclick", () => this.zoomTo(null));
    this.svg.addEventListener("pointerdown", (e) => this.down(e));
    this.svg.addEventListener("pointermove", (e) => this.move(e));
    this.svg.addEventListener("pointerup", (e) => this.up(e));
    this.svg.addEventListener("pointerleave", () => this.leave());
    this.draw();
  }

  // of a value of G on the axis; what is at or below the optimum has no logarithm
  level(v) {
    if (!excess) return v;
    return v > this.panel.optimum ? Math.log10(v - this.panel.optimum) : NaN;
  }

  frame() {
    if (this.zoom) return this.zoom;
    const K = this.curves[0].mean.length - 1;
    if (!excess) return { x: [0, K], y: this.panel.limits };
    const levels = [];
    for (const curve of this.shown()) {
      for (const v of curve.mean) {
        if (v !== null && Number.isFinite(this.level(v))) levels.push(this.level(v));
      }
    }
    const top = Math.log10(this.panel.limits[1] - this.panel.optimum);
    const low = Math.min(...levels, top - 0.1);
    return { x: [0, K], y: [low - 0.05, top + 0.02] };
  }

  shown() {
    return this.curves.filter((curve) => !hidden.has(curve.algorithm));
  }

  draw() {
    const svg = this.svg, { x, y } = this.frame();
    // one unit is about one pixel, so that text is legible on a phone too
    const W = this.width = Math.max(320, Math.min(640, this.figure.clientWidth || 560));
    svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
    svg.replaceChildren();
    const sx = (v) => LEFT + (v - x[0]) / (x[1] - x[0]) * (W - LEFT - RIGHT);
    const sy = (v) => H - BOTTOM - (v - y[0]) / (y[1] - y[0]) * (H - TOP - BOTTOM);
    // far outside is outside: huge coordinates break renderers
    const cut = (v) => Math.max(-4 * H, Math.min(5 * H, v));
    const clip = `clip-${this.figure.id}`;
    const box = { x: LEFT, y: TOP, width: W - LEFT - RIGHT, height: H - TOP - BOTTOM };
    add(add(svg, "clipPath", { id: clip }), "rect", box);
    const { found, digits } = ticks(y[0], y[1], 5);
    for (const t of excess ? logTicks(y[0], y[1]) : found) {
      add(svg, "line", { x1: LEFT, x2: W - RIGHT, y1: sy(t), y2: sy(t), stroke: "var(--grid)" });
      const label = excess ? (10 ** t).toPrecision(1) : t.toFixed(digits);
      add(svg, "text", { x: LEFT - 6, y: sy(t) + 4, "text-anchor": "end" },
        excess ? String(Number(label)) : label);
    }
    for (const t of ticks(x[0], x[1], 5).found) {
      add(svg, "line", { x1: sx(t), x2: sx(t), y1: TOP, y2: H - BOTTOM, stroke: "var(--grid)" });
      add(svg, "text", { x: sx(t), y: H - BOTTOM + 16, "text-anchor": "middle" },
        String(Number(t.toPrecision(6))));
    }
    add(svg, "text", { x: (LEFT + W - RIGHT) / 2, y: H - 6, "text-anchor": "middle" }, "epoch");
    add(svg, "text", {
      transform: `translate(13 ${(TOP + H - BOTTOM) / 2}) rotate(-90)`, "text-anchor": "middle",
    }, excess ? "G(x; D) − G*" : "G(x; D)");
    const plot = add(svg, "g", { "clip-path": `url(#${clip})` });
    if (!excess) {
      const at = sy(this.panel.optimum);
      add(plot, "line", {
        x1: LEFT, x2: W - RIGHT, y1: at, y2: at, stroke: "currentColor", "stroke-dasharray": "1 3",
      });
    }
    for (const curve of this.shown()) this.band(plot, curve, sx, sy, cut, y[0]);
    for (const curve of this.shown()) this.line(plot, curve, sx, sy, cut);
    add(svg, "path", {
      d: `M${LEFT} ${TOP}V${H - BOTTOM}H${W - RIGHT}`, fill: "none", stroke: "currentColor",
    });
    this.guide = add(svg, "line", { y1: TOP, y2: H - BOTTOM, stroke: "currentColor", visibility: "hidden" });
    this.mark = add(svg, "rect", { fill: "currentColor", "fill-opacity": 0.12, visibility: "hidden" });
    this.reset.hidden = this.zoom === null;
    svg.dataset.drawn = this.shown().length;
  }

  band(plot, curve, sx, sy, cut, floor) {
    const upper = [], lower = [];
    curve.mean.forEach((m, k) => {
      if (m === null) return;
      const high = this.level(m + curve.std[k]), low = this.level(m - curve.std[k]);
      if (!Number.isFinite(high)) return;
      upper.push(`${sx(k).toFixed(1)} ${cut(sy(high)).toFixed(1)}`);
      lower.unshift(`${sx(k).toFixed(1)} ${cut(sy(Number.isFinite(low) ? low : floor)).toFixed(1)}`);
    });
    if (upper.length > 1) {
      add(plot, "path", { d: `M${upper.join("L")}L${lower.join("L")}Z`, fill: curve.colour, "fill-opacity": 0.16 });
    }
  }

  line(plot, curve, sx, sy, cut) {
    let path = "", pen = "M";
    curve.mean.forEach((m, k) => {
      const level = m === null ? NaN : this.level(m);
      if (!Number.isFinite(level)) { pen = "M"; return; }
      path += `${pen}${sx(k).toFixed(1)} ${cut(sy(level)).toFixed(1)}`;
      pen = "L";
    });
    add(plot, "path", {
      d: path || "M0 0", fill: "none", stroke: curve.colour, "stroke-width": curve.unstable ? 1 : 2,
      "stroke-opacity": curve.unstable ? 0.6 : 1, "stroke-dasharray": curve.dashes,
      "data-curve": curve.algorithm,
    });
  }

  // pointer position in the units of the picture
  at(event) {
    const box = this.svg.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width * this.width, (event.clientY - box.top) / box.height * H];
  }

  down(event) {
    if (event.pointerType === "mouse") this.from = this.at(event);
    this.move(event);
  }

  move(event) {
    const [px, py] = this.at(event), W = this.width;
    if (this.from) {
      const [fx, fy] = this.from;
      this.box = { x: Math.min(px, fx), y: Math.min(py, fy), width: Math.abs(px - fx), height: Math.abs(py - fy) };
      for (const [key, value] of Object.entries(this.box)) this.mark.setAttribute(key, value);
      this.mark.setAttribute("visibility", "visible");
    }
    const { x } = this.frame(), K = this.curves[0].mean.length - 1;
    const share = (px - LEFT) / (W - LEFT - RIGHT);
    const epoch = Math.max(0, Math.min(K, Math.round(x[0] + share * (x[1] - x[0]))));
    const gx = LEFT + (epoch - x[0]) / (x[1] - x[0]) * (W - LEFT - RIGHT);
    this.guide.setAttribute("x1", gx);
    this.guide.setAttribute("x2", gx);
    this.guide.setAttribute("visibility", "visible");
    const rows = this.shown().slice().sort((a, b) => (a.mean[epoch] ?? Infinity) - (b.mean[epoch] ?? Infinity));
    this.tip.replaceChildren(`epoch ${epoch}`);
    for (const curve of rows) {
      const row = document.createElement("div"), key = document.createElement("i");
      key.style.background = curve.colour;
      const m = curve.mean[epoch], s = curve.std[epoch];
      row.append(key, `${curve.title} ${plain(m)}` + (m !== null && s ? ` ± ${s.toPrecision(2)}` : ""));
      this.tip.append(row);
    }
    this.tip.hidden = false;
    const left = share < 0.5;
    this.tip.style.left = left ? "auto" : "4rem";
    this.tip.style.right = left ? ".6rem" : "auto";
  }

  up() {
    const box = this.box, W = this.width, { x, y } = this.frame();
    this.from = this.box = null;
    if (!box || box.width < 8 || box.height < 8) {
      this.mark.setAttribute("visibility", "hidden");
      return;
    }
    const ex = (p) => x[0] + (p - LEFT) / (W - LEFT - RIGHT) * (x[1] - x[0]);
    const ey = (p) => y[0] + (H - BOTTOM - p) / (H - TOP - BOTTOM) * (y[1] - y[0]);
    this.zoomTo({
      x: [Math.max(0, ex(box.x)), ex(Math.min(W - RIGHT, box.x + box.width))],
      y: [ey(Math.min(H - BOTTOM, box.y + box.height)), ey(Math.max(TOP, box.y))],
    });
  }

  leave() {
    this.from = this.box = null;
    this.tip.hidden = true;
    this.guide.setAttribute("visibility", "hidden");
    this.mark.setAttribute("visibility", "hidden");
  }

  zoomTo(frame) {
    this.zoom = frame;
    this.draw();
  }
}

const charts = [...document.querySelectorAll("figure[data-panel]")].map((f) => new Chart(f));

for (const button of document.querySelectorAll("nav button[data-algorithm]")) {
  button.addEventListener("click", () => {
    const name = button.dataset.algorithm;
    if (!hidden.delete(name)) hidden.add(name);
    button.setAttribute("aria-pressed", String(!hidden.has(name)));
    charts.forEach((chart) => chart.draw());
  });
}

document.querySelector("nav button.scale").addEventListener("click", (event) => {
  excess = !excess;
  event.target.textContent = excess ? "show G" : "show G − G*, log";
  charts.forEach((chart) => chart.zoomTo(null));
});
window.addEventListener("resize", () => charts.forEach((chart) => chart.draw()));
document.documentElement.dataset.charts = charts.length;
