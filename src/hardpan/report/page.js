// Turns the page's static charts into interactive ones, and adds downloads and sortable tables.
// Without this script the page says the same: pictures and tables are already in it.
(function () {
  "use strict";
  const data = JSON.parse(document.getElementById("charts").textContent);
  document.documentElement.classList.add("has-js");

  // Colours become variables of the page, so a chart follows the reader's light or dark setting by itself.
  const themed = (spec) => {
    let text = JSON.stringify(spec);
    for (const [colour, variable] of Object.entries(data.colours)) text = text.replaceAll(`"${colour}"`, `"${variable}"`);
    return JSON.parse(text);
  };

  const show = (figure, spec) =>
    vegaEmbed(figure.querySelector(".live"), themed(spec), { actions: false, renderer: "svg", mode: "vega-lite" });

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
    return drawn.view;
  };

  // A chart with a slider for the threshold: pictures of examples below it fade.
  const follow = ({ view }) => {
    if (!view.getState().signals || !("threshold" in view.getState().signals)) return;
    view.addSignalListener("threshold", (name, from) => {
      document.querySelectorAll(".thumb").forEach((thumb) =>
        thumb.classList.toggle("easy", Number(thumb.dataset.score) < from - 1e-9));
    });
  };

  const enliven = (figure) => {
    const chart = data.charts[figure.id];
    let which = 0;
    const live = figure.querySelector(".live");
    live.classList.add("drawn");
    show(figure, chart.specs[which]).then(follow).catch((error) => {
      live.classList.remove("drawn");
      console.error(error);
    });
    const toggle = figure.querySelector("[data-switch]");
    if (toggle) {
      toggle.addEventListener("click", () => {
        which = 1 - which;
        toggle.setAttribute("aria-pressed", String((which === 1) !== chart.on));
        show(figure, chart.specs[which]);
      });
    }
    figure.querySelector("[data-svg]").addEventListener("click", async () => {
      const svg = await (await alone(chart, which)).toSVG();
      save(`${chart.file}.svg`, URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" })));
    });
    figure.querySelector("[data-png]").addEventListener("click", async () =>
      save(`${chart.file}.png`, await (await alone(chart, which)).toImageURL("png", 2)));
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
          const [m, n] = [Number(x), Number(y)];
          return Number.isNaN(m) || Number.isNaN(n) ? x.localeCompare(y) : m - n;
        };
        body.append(...[...body.rows].sort((a, b) => (up ? compare(a, b) : compare(b, a))));
      });
    });
  };

  // A gallery with a slider shows one of its groups at a time; on paper, all of them.
  const pick = (range) => {
    const groups = range.closest("figure").querySelectorAll(".group");
    const show = () => {
      groups.forEach((group, place) => group.classList.toggle("unpicked", place !== Number(range.value)));
      range.setAttribute("aria-valuetext", groups[Number(range.value)].querySelector("h3").textContent);
    };
    range.addEventListener("input", show);
    show();
  };

  document.querySelectorAll("figure[id]").forEach(enliven);
  document.querySelectorAll("[data-pick]").forEach(pick);
  document.querySelectorAll("table[data-sortable]").forEach(sortable);
})();
