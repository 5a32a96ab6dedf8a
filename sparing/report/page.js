// One cursor through every panel over the steps, by pointer or arrow keys; the page reads in full without it.
(() => {
  const holder = document.getElementById("curves");
  if (holder) {
    const { low, high, panels } = JSON.parse(holder.textContent);
    const areas = [...document.querySelectorAll(".area[data-panel]")];
    const outputs = new Map([...document.querySelectorAll("output[data-for]")].map((o) => [o.dataset.for, o]));
    const format = (v) =>
      v === null ? "–" : v !== 0 && Math.abs(v) < 0.001 ? v.toExponential(1)
        : v.toLocaleString("en-US", { maximumFractionDigits: Math.abs(v) < 1 ? 3 : Math.abs(v) < 100 ? 1 : 0 });
    const nearest = (xs, step) => {
      let a = 0, b = xs.length - 1;
      while (b - a > 1) { const m = (a + b) >> 1; if (xs[m] <= step) a = m; else b = m; }
      return step - xs[a] <= xs[b] - step ? a : b;
    };
    const read = (step) => {
      for (const [name, series] of Object.entries(panels)) {
        const output = outputs.get(name);
        const filled = series.filter((s) => s.x.length);
        if (!output || !filled.length) continue;
        const at = nearest(filled[0].x, step);
        const values = filled.map((s) => format(s.y[nearest(s.x, step)])).join(" · ");
        output.textContent = name.startsWith("validation") ? `step ${filled[0].x[at]}: ${values}` : values;
      }
    };
    const cursors = areas.map((area) => area.appendChild(Object.assign(document.createElement("div"), { className: "cursor" })));
    let current = high;
    const show = (step) => {
      current = Math.min(high, Math.max(low, step));
      for (const c of cursors) { c.style.display = "block"; c.style.left = `${(100 * (current - low)) / (high - low)}%`; }
      read(current);
    };
    const hide = () => { current = high; for (const c of cursors) c.style.display = "none"; read(high); };
    for (const area of areas) {
      area.addEventListener("pointermove", (e) => {
        const box = area.getBoundingClientRect();
        show(Math.round(low + ((e.clientX - box.left) / box.width) * (high - low)));
      });
      area.addEventListener("pointerleave", hide);
    }
    const first = areas[0];
    if (first) {
      first.tabIndex = 0;
      first.addEventListener("keydown", (e) => {
        const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
        if (!by) return;
        e.preventDefault();
        show(current + by * Math.max(1, Math.round((high - low) / 100)));
      });
      first.addEventListener("blur", hide);
    }
    read(high);
  }
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
})();
