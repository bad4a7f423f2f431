// Turns the page's static charts into interactive ones, and adds downloads and sortable tables.
// Without this script the page says the same: pictures and tables are already in it.
(function () {
  "use strict";
  const payload = document.getElementById("chart-data");
  const data = payload ? JSON.parse(payload.textContent) : { charts: {}, colours: {} };
  document.documentElement.classList.add("has-js");

  // Colours become variables of the page, so a chart follows the reader's light or dark setting by itself.
  const themed = (spec) => {
    let text = JSON.stringify(spec);
    for (const [colour, variable] of Object.entries(data.colours)) text = text.replaceAll(`"${colour}"`, `"${variable}"`);
    return JSON.parse(text);
  };

  // Zooming is switched on by the reader, so that a wheel over a chart scrolls the page as ever.
  const bound = (spec, axes) => spec.layer.find((layer) => axes.every((axis) => layer.encoding[axis]?.field));
  const zoomable = (spec, axes) => {
    const copy = structuredClone(spec);
    for (const layer of copy.layer) if (layer.mark.type !== "text" || layer.encoding.x?.field) layer.mark.clip = true;
    (bound(copy, axes).params ??= []).push({ name: "zoom", select: { type: "interval", encodings: axes }, bind: "scales" });
    return copy;
  };

  const zoomBy = (view, spec, axes, factor) => {
    for (const axis of axes) {
      const scale = view.scale(axis);
      const [there, back] = scale.type === "log" ? [Math.log, Math.exp] : [Number, Number];
      const [low, high] = scale.domain().map(there);
      const middle = (low + high) / 2;
      const half = (factor * (high - low)) / 2;
      view.signal(`zoom_${bound(spec, axes).encoding[axis].field}`, [middle - half, middle + half].map(back));
    }
    return view.runAsync();
  };

  const save = (name, url) => {
    const link = document.createElement("a");
    link.href = url;
    link.download = name;
    link.click();
  };

  // A download stands alone: light colours, white paper, a fixed width and the title inside.
  const alone = async (chart, which) => {
    const spec = { ...chart.specs[which], width: data.width, title: chart.title, background: "white" };
    const drawn = await vegaEmbed(document.createElement("div"), spec, { actions: false, renderer: "svg" });
    const picture = new DOMParser().parseFromString(await drawn.view.toSVG(), "image/svg+xml").documentElement;
    drawn.finalize();
    picture.querySelectorAll(".struck_marks text").forEach((text) => text.setAttribute("text-decoration", "line-through"));
    return new Blob([new XMLSerializer().serializeToString(picture)], { type: "image/svg+xml" });
  };

  const asPng = async (svg) => {
    const image = new Image();
    image.src = URL.createObjectURL(svg);
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * image.width, 2 * image.height];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return canvas.toDataURL("image/png");
  };

  // What is selected in one chart stands out in every chart that shows it.
  const views = new Map();
  let linking = false;
  const link = (figure, view) => {
    if (!("picked" in view.getState().signals)) return;
    const chosen = (value) => Object.entries(value).filter(([name]) => name !== "vlPoint");
    view.addSignalListener("picked", async (signal, value) => {
      const [found] = chosen(value);
      figure.querySelector(".picked").textContent = found ? `Selected: ${found[1].join(", ")}. Escape, or a click beside the marks, ends it.` : "";
      if (linking) return;
      linking = true;
      const store = view.data("picked_store").map(({ unit, fields, values }) => ({ unit, fields, values }));
      for (const other of views.values()) {
        if (other === view || !("picked" in other.getState().signals)) continue;
        await other.data("picked_store", store).runAsync();
      }
      linking = false;
    });
  };

  document.addEventListener("keydown", ({ key }) => {
    if (key !== "Escape") return;
    for (const view of views.values()) if ("picked" in view.getState().signals) view.data("picked_store", []).runAsync();
  });

  const enliven = (figure) => {
    const chart = data.charts[figure.id];
    const find = (name) => figure.querySelector(`[data-${name}]`);
    const live = figure.querySelector(".live");
    let [which, zooming] = [0, false];
    const draw = async () => {
      const spec = themed(zooming ? zoomable(chart.specs[which], chart.zoom) : chart.specs[which]);
      const { view } = await vegaEmbed(live, spec, { actions: false, renderer: "svg", mode: "vega-lite" });
      views.get(figure)?.finalize();
      views.set(figure, view);
      link(figure, view);
    };
    live.classList.add("drawn");
    draw().catch((error) => {
      live.classList.remove("drawn");
      console.error(error);
    });
    find("switch")?.addEventListener("click", ({ currentTarget }) => {
      which = 1 - which;
      currentTarget.setAttribute("aria-pressed", String((which === 1) !== chart.on));
      draw();
    });
    find("zoom")?.addEventListener("click", ({ currentTarget }) => {
      zooming = !zooming;
      currentTarget.setAttribute("aria-pressed", String(zooming));
      for (const name of ["closer", "wider"]) find(name).hidden = !zooming;
      draw();
    });
    for (const [name, factor] of [["closer", 0.5], ["wider", 2]])
      find(name)?.addEventListener("click", () => zoomBy(views.get(figure), chart.specs[which], chart.zoom, factor));
    find("svg").addEventListener("click", async () =>
      save(`${chart.file}.svg`, URL.createObjectURL(await alone(chart, which))));
    find("png").addEventListener("click", async () => save(`${chart.file}.png`, await asPng(await alone(chart, which))));
  };

  // A cell's number, also where an interval or a unit follows it: "−1.9 (−2.4 to −0.7)".
  // A power of ten without a percent sign is a fraction, and stands among percents: "2.1 × 10⁻⁶ ± 3 × 10⁻⁷".
  const number = (text) => {
    const value = Number(text.replace(/\s.*$/s, "").replace("−", "-").replaceAll(",", "") || NaN);
    const power = text.match(/^\S+\s×\s10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)(\s%)?/);
    if (!power) return value;
    const exponent = Number([...power[1]].map((sign) => "-0123456789"["⁻⁰¹²³⁴⁵⁶⁷⁸⁹".indexOf(sign)]).join(""));
    return value * 10 ** (exponent + (power[2] ? 0 : 2));
  };

  const sortable = (table) => {
    const body = table.tBodies[0];
    table.querySelectorAll("thead th").forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        table.querySelectorAll("thead th").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
        const compare = (a, b) => {
          const [x, y] = [key(a), key(b)];
          const [m, n] = [number(x), number(y)];
          return Number.isNaN(m) || Number.isNaN(n) ? x.localeCompare(y) : m - n;
        };
        body.append(...[...body.rows].sort((a, b) => (up ? compare(a, b) : compare(b, a))));
      });
    });
  };

  // Rows of a long table that have all the words typed above it.
  const filterable = (table) => {
    const label = document.createElement("label");
    const input = document.createElement("input");
    input.type = "search";
    label.className = "filter";
    label.append("Show rows with ", input);
    table.parentElement.before(label);
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/);
      for (const row of table.tBodies[0].rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
    });
  };

  // A long table scrolls in its own box until its "Show all" button is clicked.
  const unfold = (button) => button.addEventListener("click", () => {
    button.previousElementSibling.classList.remove("tall");
    button.remove();
  });

  // A gallery with a slider shows one of its groups at a time; on paper, all of them.
  const pick = (range) => {
    const groups = range.closest("figure").querySelectorAll(".group");
    const show = () => {
      groups.forEach((group, place) => group.classList.toggle("unpicked", place !== Number(range.value)));
      range.setAttribute("aria-valuetext", groups[Number(range.value)].querySelector(".name").textContent);
    };
    range.addEventListener("input", show);
    show();
  };

  // The first screen comes first; the others when the browser has time, those in closed folds when these open.
  // A busy machine may leave a page no idle time for minutes, so it waits at most a tenth of a second.
  const later = (call) => (window.requestIdleCallback ? requestIdleCallback(call, { timeout: 100 }) : setTimeout(call, 20));
  const waiting = [...document.querySelectorAll("figure[id]")];
  const next = () => {
    const figure = waiting.shift();
    if (!figure) return;
    const fold = figure.closest("details:not([open])");
    if (fold) fold.addEventListener("toggle", () => enliven(figure), { once: true });
    else enliven(figure);
    later(next);
  };
  document.querySelectorAll("[data-pick]").forEach(pick);
  document.querySelectorAll("[data-all]").forEach(unfold);
  document.querySelectorAll("table[data-sortable]").forEach(sortable);
  document.querySelectorAll(".tall table[data-sortable]").forEach(filterable);
  later(next);

  // Served by hardpan browse, every example links to the explorer.
  if (location.protocol !== "file:" && location.pathname === "/report")
    for (const thumb of document.querySelectorAll(".thumb[data-id]")) {
      const link = document.createElement("a");
      link.href = `/#id=${encodeURIComponent(thumb.dataset.id)}`;
      link.textContent = "Open in the explorer";
      const place = document.createElement("dd");
      place.append(link);
      thumb.querySelector("dl").append(place);
    }

  // The section that is read is marked in the navigation.
  const entries = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const watch = new IntersectionObserver((seen) => {
    for (const { isIntersecting, target } of seen) {
      if (!isIntersecting) continue;
      for (const [key, link] of entries) key === target.id ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
    }
  }, { rootMargin: "-10% 0px -80% 0px" });
  document.querySelectorAll("main > section").forEach((section) => watch.observe(section));

  // A link to something inside a closed fold opens it; paper has no folds.
  const reveal = () => document.getElementById(decodeURIComponent(location.hash.slice(1)))?.closest("details")?.setAttribute("open", "");
  window.addEventListener("hashchange", reveal);
  reveal();
  window.addEventListener("beforeprint", () => document.querySelectorAll(".fold").forEach((fold) => { fold.open = true; }));
})();
