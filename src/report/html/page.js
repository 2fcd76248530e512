/* The timeline that zooms. It owns the canvas and the keys; all that it shows comes from the JSON in the page, and
   all text of that goes on the canvas or into textContent, never into markup. Each frame draws at most one stroke a
   pixel and lane, so a frame costs what the screen holds, not what the run held. */
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const canvas = byId("canvas"), ctx = canvas.getContext("2d"), say = byId("say");
  if (!ctx || !(data.end > 0)) return;
  const REFUSED = 0, UNKNOWN = 1, HELD = 2, BEYOND = 3, WRITE = 4, NO_WRITE = 5, DEATH = 6;
  const WHAT = ["acquire refused", "no definite answer", "holds", "holds past its lease", "write", "write refused",
    "client died", "call"];
  const TOP = 22, BOTTOM = 22, NARROWEST = 40;
  const rows = [...data.lanes.map(unpack), ...data.nodes.map((n) => Object.assign(unpack(n), { node: true }))];
  let from = 0, to = data.end, width = 0, height = 0, left = 110, edge = 4, row = 18, current = -1, colours = {}, queued = false;
  let pointer = null;

  /* Bytes to three arrays, in µs: see `pack` in timeline.rs. `reach` is the latest end so far, so that a search for
     what is still there at a time can be by halves. */
  function unpack(lane) {
    const bytes = atob(lane.d.replace(/-/g, "+").replace(/_/g, "/"));
    const kind = new Uint8Array(lane.n), a = new Float64Array(lane.n), b = new Float64Array(lane.n);
    const reach = new Float64Array(lane.n);
    let at = 0, last = 0, far = 0;
    const number = () => {
      let n = 0, scale = 1;
      for (;;) {
        const byte = bytes.charCodeAt(at++);
        n += (byte & 127) * scale;
        if (byte < 128) return n;
        scale *= 128;
      }
    };
    for (let i = 0; i < lane.n; i++) {
      kind[i] = bytes.charCodeAt(at++);
      a[i] = last += number();
      b[i] = a[i] + number();
      reach[i] = far = Math.max(far, b[i]);
    }
    return { name: lane.name, n: lane.n, kind, a, b, reach };
  }

  /* The first span that may still be there at `t`. */
  function first(lane, t) {
    let low = 0, high = lane.n;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (lane.reach[mid] < t) low = mid + 1; else high = mid;
    }
    return low;
  }

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue("--" + name).trim();
    for (const name of ["bg", "ink", "soft", "line", "red", "amber", "fault", "fault-wash"]) colours[name] = get(name);
    colours.hue = [0, 1, 2, 3, 4, 5, 6, 7].map((n) => get("h" + n));
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const t = tile.getContext("2d");
    t.strokeStyle = colours.bg;
    t.globalAlpha = 0.65;
    t.lineWidth = 2;
    t.beginPath();
    for (const d of [-6, 0, 6]) { t.moveTo(d - 1, 7); t.lineTo(d + 7, -1); }
    t.stroke();
    colours.hatch = ctx.createPattern(tile, "repeat");
  }

  function resize() {
    const ratio = window.devicePixelRatio || 1;
    width = canvas.clientWidth;
    /* As the charts below it, so that times stand above each other. */
    left = width < 600 ? 64 : width * 0.118;
    edge = width < 600 ? 4 : width * 0.008;
    row = rows.length > 40 ? 11 : rows.length > 20 ? 14 : rows.length > 8 ? 18 : 24;
    height = TOP + rows.length * row + BOTTOM;
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw();
  }

  const x = (t) => left + (t - from) / (to - from) * (width - left - edge);
  const time = (px) => from + (px - left) / (width - left - edge) * (to - from);

  function step(least) {
    let power = 1;
    for (;;) {
      for (const m of [1, 2, 5]) if (m * power >= least) return m * power;
      power *= 10;
    }
  }

  function seconds(us, grain) {
    const digits = Math.max(0, Math.min(6, 6 - Math.floor(Math.log10(Math.max(1, grain)))));
    return (us / 1e6).toFixed(digits);
  }

  function draw() {
    queued = false;
    ctx.clearRect(0, 0, width, height);
    ctx.font = "11px " + getComputedStyle(document.body).fontFamily;
    ctx.textBaseline = "middle";
    axis();
    for (const f of data.faults) {
      if (f.to < from || f.from > to) continue;
      const a = Math.max(left, x(f.from)), b = Math.min(width - edge, x(f.to));
      ctx.fillStyle = colours["fault-wash"];
      ctx.fillRect(a, TOP - 8, Math.max(1, b - a), height - TOP - BOTTOM + 8);
      ctx.fillStyle = colours.fault;
      ctx.fillRect(a, TOP - 9, Math.max(1, b - a), 2);
    }
    rows.forEach(lane);
    marks();
  }

  function axis() {
    const by = step((to - from) / Math.max(2, Math.floor((width - left) / 90)));
    ctx.fillStyle = colours.soft;
    ctx.strokeStyle = colours.line;
    ctx.lineWidth = 1;
    ctx.textAlign = "center";
    ctx.beginPath();
    for (let t = Math.ceil(from / by) * by; t <= to; t += by) {
      const at = Math.round(x(t)) + 0.5;
      ctx.moveTo(at, TOP - 8);
      ctx.lineTo(at, height - BOTTOM);
      ctx.fillText(seconds(t, by) + " s", Math.min(at, width - 22), height - BOTTOM + 12);
    }
    ctx.stroke();
  }

  function lane(of, n) {
    const y = TOP + n * row;
    ctx.textAlign = "left";
    ctx.fillStyle = colours.ink;
    if (row > 11 || n % 2 === 0) ctx.fillText(short(of.name), 0, y + row / 2);
    if (of.node) return bars(of, y + row / 2 - 4, 8, null, (k) => (k === 255 ? colours.soft : colours.hue[k % 8]));
    const hue = colours.hue[n % 8], body = row - 7;
    bars(of, y + row - 5, 2, REFUSED, () => colours.line);
    bars(of, y + row - 6, 3, UNKNOWN, () => colours.amber);
    bars(of, y + 2, body, HELD, () => hue);
    bars(of, y + 2, body, BEYOND, () => hue, true);
    if (to - from < 4e6) bars(of, y + 1, 3, WRITE, () => colours.ink);
    bars(of, y + 1, row - 4, NO_WRITE, () => colours.red);
    bars(of, y, row - 2, DEATH, () => colours.ink);
  }

  /* The spans of one kind (null: of all) as bars; what begins within a drawn pixel is part of it. */
  function bars(of, y, h, kind, colour, hatched) {
    const stop = width - edge;
    let end = -1;
    for (let i = first(of, from); i < of.n && of.a[i] <= to; i++) {
      if (kind !== null && of.kind[i] !== kind) continue;
      const b = Math.min(stop, x(of.b[i]));
      if (b <= end) continue;
      const a = Math.max(left, x(of.a[i]), kind === null ? left : end);
      if (b < left) continue;
      ctx.fillStyle = colour(of.kind[i]);
      const w = Math.max(1, b - a);
      ctx.fillRect(a, y, w, h);
      if (hatched) { ctx.fillStyle = colours.hatch; ctx.fillRect(a, y, w, h); }
      end = a + w;
    }
  }

  function marks() {
    ctx.fillStyle = colours.red;
    let last = -9;
    data.found.forEach((f, i) => {
      const at = x(f.at);
      if (f.at < from || f.at > to || (at - last < 2 && i !== current)) return;
      last = at;
      const size = i === current ? 6 : 4;
      ctx.beginPath();
      ctx.moveTo(at, 11);
      ctx.lineTo(at - size, 2);
      ctx.lineTo(at + size, 2);
      ctx.fill();
      if (i === current) ctx.fillRect(at - 0.5, 10, 1, height - BOTTOM - 10);
    });
  }

  const short = (name) => {
    let text = name;
    while (text.length > 3 && ctx.measureText(text).width > left - 6) text = text.slice(0, -2) + "…";
    return text;
  };

  function view(a, b) {
    const span = Math.max(NARROWEST, Math.min(data.end, b - a));
    from = Math.max(0, Math.min(data.end - span, a + (b - a - span) / 2));
    to = from + span;
    if (!queued) { queued = true; requestAnimationFrame(draw); }
  }

  function zoom(factor, around) {
    let at = around === undefined ? (from + to) / 2 : around;
    const f = data.found[current];
    if (around === undefined && f && f.at > from && f.at < to) at = f.at;
    view(at - (at - from) * factor, at + (to - at) * factor);
  }

  const pan = (share) => view(from + (to - from) * share, to + (to - from) * share);
  const whole = () => { current = -1; view(0, data.end); tell("The whole run, " + seconds(data.end, 1000) + " s."); };
  const tell = (text) => { say.textContent = text; };

  function show(i) {
    const f = data.found[i];
    if (!f) return tell("No finding was kept.");
    current = i;
    const room = Math.max(f.to - f.from, 1000) * 0.15;
    view(f.from - room, f.to + room);
    say.textContent = "";
    const link = document.createElement("a");
    link.href = "#" + f.id;
    link.textContent = (i + 1) + " of " + data.found.length + ", " + f.check;
    link.addEventListener("click", () => unfold(byId(f.id)));
    say.append(link, ": " + f.text);
  }

  /* Findings stand by check in the page, and by time here. */
  const order = data.found.map((_, i) => i).sort((a, b) => data.found[a].at - data.found[b].at);
  function jump(by) {
    const n = order.length;
    let place = order.indexOf(current);
    if (place >= 0) place += by;
    else if (by > 0) place = Math.max(0, order.findIndex((i) => data.found[i].at >= from));
    else place = order.findLastIndex((i) => data.found[i].at <= to);
    show(order[(place + n) % Math.max(1, n)]);
  }

  function under(event) {
    const box = canvas.getBoundingClientRect();
    const px = event.clientX - box.left, n = Math.floor((event.clientY - box.top - TOP) / row);
    const t = time(px), of = rows[n];
    if (px < left || t < 0 || t > data.end) return;
    let text = seconds(t, (to - from) / 1000) + " s";
    if (of) {
      text += ", " + of.name;
      const near = (to - from) / (width - left) * 2;
      let best = -1;
      for (let i = first(of, t - near); i < of.n && of.a[i] <= t + near; i++) {
        if (of.b[i] < t - near) continue;
        if (best < 0 || of.node || rank(of.kind[i]) >= rank(of.kind[best])) best = i;
      }
      if (best >= 0) {
        const k = of.kind[best];
        const what = of.node ? "value of " + (k === 255 ? "nobody known" : data.lanes[k] ? data.lanes[k].name : "?") : WHAT[k];
        text += ": " + what + ", " + seconds(of.a[best], 1) + " to " + seconds(of.b[best], 1) + " s";
      }
    }
    for (const f of data.faults) if (f.from <= t && t <= f.to) text += " · " + f.name;
    tell(text);
  }
  const rank = (kind) => [2, 5, 3, 4, 1, 6, 7, 0][kind];

  const pointers = new Map();
  canvas.addEventListener("pointerdown", (e) => {
    pointers.set(e.pointerId, e.clientX);
    canvas.setPointerCapture(e.pointerId);
    canvas.classList.add("drag");
    pointer = { x: e.clientX, from, to };
  });
  canvas.addEventListener("pointermove", (e) => {
    if (!pointers.has(e.pointerId)) return under(e);
    if (pointers.size === 2) {
      const [a, b] = [...pointers.values()], before = Math.abs(a - b);
      pointers.set(e.pointerId, e.clientX);
      const [c, d] = [...pointers.values()], after = Math.abs(c - d);
      const box = canvas.getBoundingClientRect();
      if (before > 5 && after > 5) zoom(before / after, time((c + d) / 2 - box.left));
      return;
    }
    pointers.set(e.pointerId, e.clientX);
    const shift = (pointer.x - e.clientX) / (width - left - edge) * (pointer.to - pointer.from);
    view(pointer.from + shift, pointer.to + shift);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, (e) => {
      pointers.delete(e.pointerId);
      canvas.classList.remove("drag");
      pointer = { x: [...pointers.values()][0], from, to };
    });
  }
  canvas.addEventListener("wheel", (e) => {
    /* The page scrolls until the timeline was asked for. */
    if (document.activeElement !== canvas && !e.ctrlKey && !e.metaKey) return;
    e.preventDefault();
    if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) return pan(e.deltaX / 1000);
    zoom(Math.exp(Math.max(-1, Math.min(1, e.deltaY / 300))), time(e.clientX - canvas.getBoundingClientRect().left));
  }, { passive: false });

  const DO = { in: () => zoom(0.5), out: () => zoom(2), left: () => pan(-0.25), right: () => pan(0.25), all: whole,
    next: () => jump(1), prev: () => jump(-1) };
  const KEYS = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all", n: "next",
    p: "prev", Home: "all", ArrowUp: "in", ArrowDown: "out" };
  for (const id of Object.keys(DO)) byId(id).addEventListener("click", DO[id]);
  canvas.addEventListener("keydown", (e) => {
    const what = KEYS[e.key];
    if (!what || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    DO[what]();
  });
  for (const button of document.querySelectorAll("button.go")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      show(data.found.findIndex((f) => f.id === button.dataset.finding));
      byId("timeline").scrollIntoView();
      canvas.focus({ preventScroll: true });
    });
  }
  function unfold(aim) {
    for (let d = aim; d; d = d.parentElement) if (d.tagName === "DETAILS") d.open = true;
  }
  const opened = () => { if (location.hash) unfold(byId(location.hash.slice(1))); };
  window.addEventListener("hashchange", opened);
  window.addEventListener("beforeprint", () => document.querySelectorAll("details.finding").forEach((d, i) => { if (i < 12) d.open = true; }));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { theme(); draw(); });

  /* On a screen that is too narrow for a diagram, what is seen of it first is the damage, beside the names of the rows. */
  const aim = (box) => {
    const mark = box.querySelector("svg.sequence .bracket, svg.sequence .harm");
    if (!mark || box.scrollWidth <= box.clientWidth) return;
    const there = mark.getBoundingClientRect(), here = box.getBoundingClientRect();
    const names = box.querySelector("svg.names").getBoundingClientRect().width;
    box.scrollLeft += (there.left + there.right - here.left - here.right - names) / 2;
  };
  for (const finding of document.querySelectorAll("details.finding")) {
    const look = () => { if (finding.open) finding.querySelectorAll(":scope > .scroll").forEach(aim); };
    finding.addEventListener("toggle", look);
    look();
  }

  byId("bar").hidden = byId("live").hidden = false;
  byId("still").style.display = "none";
  for (const id of ["prev", "next"]) byId(id).disabled = data.found.length === 0;
  theme();
  new ResizeObserver(resize).observe(byId("live"));
  resize();
  opened();
})();
