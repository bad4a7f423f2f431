// The explorer's page: asks the server for one page of rows at a time, and keeps what was asked in the address.
(function () {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const make = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties || {});
    element.append(...children);
    return element;
  };
  const state = { filters: {}, sort: "", descending: true, offset: 0, table: false };
  const chosen = new Set();
  let about = null;
  let total = 0;
  let latest = 0;

  const shown = (value) => {
    if (value === null || value === undefined) return "unknown";
    if (value === true) return "yes";
    if (value === false) return "no";
    if (typeof value !== "number" || Number.isInteger(value)) return String(value);
    if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en");
    return Math.abs(value) < 0.001 ? value.toExponential(1) : value.toPrecision(3);
  };
  const counted = (number) => number.toLocaleString("en");

  const ask = async (path, body) => {
    const response = await fetch(path, body ? { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) } : undefined);
    if (!response.ok) {
      const answer = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
      throw new Error(answer.error);
    }
    return response;
  };
  const complain = (error) => {
    $("complaint").textContent = error instanceof TypeError ? "The server does not answer; start hardpan browse again." : error.message;
    $("complaint").hidden = false;
  };
  const later = (work, wait) => {
    let timer = 0;
    return () => { clearTimeout(timer); timer = setTimeout(work, wait); };
  };

  const filters = () => Object.values(state.filters).flat();
  const question = () => ({ filters: filters(), sort: state.sort, descending: state.descending });
  const remember = () => {
    const kept = { filters: state.filters, sort: state.sort, descending: state.descending, offset: state.offset, table: state.table };
    history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify(kept))}`);
  };
  const recall = () => {
    if (location.hash.length < 2) return;
    try {
      Object.assign(state, JSON.parse(decodeURIComponent(location.hash.slice(1))));
    } catch {
      history.replaceState(null, "", location.pathname);
    }
  };

  // One control for each column, by its kind.
  const control = (column) => {
    const set = (conditions) => {
      if (conditions.length) state.filters[column.name] = conditions;
      else delete state.filters[column.name];
      state.offset = 0;
      update();
    };
    const now = state.filters[column.name] || [];
    const field = make("fieldset", {}, make("legend", { textContent: column.name }));
    if (column.kind === "number") {
      const bars = make("div", { className: "histogram", ariaHidden: "true" });
      bars.dataset.column = column.name;
      const end = (operation, words) => {
        const input = make("input", { type: "number", step: "any", ariaLabel: `${column.name}: ${words}` });
        input.placeholder = shown(operation === "at_least" ? column.low : column.high);
        const before = now.find((item) => item.operation === operation);
        if (before) input.value = before.value;
        return input;
      };
      const low = end("at_least", "at least");
      const high = end("at_most", "at most");
      const read = later(() => {
        const found = [];
        if (low.value !== "") found.push({ column: column.name, operation: "at_least", value: Number(low.value) });
        if (high.value !== "") found.push({ column: column.name, operation: "at_most", value: Number(high.value) });
        set(found);
      }, 250);
      low.addEventListener("input", read);
      high.addEventListener("input", read);
      field.append(bars, make("div", { className: "range" }, low, "to", high));
    } else if (column.kind === "flag") {
      const select = make("select", { ariaLabel: column.name },
        make("option", { value: "", textContent: "any" }), make("option", { value: "yes", textContent: "yes" }), make("option", { value: "no", textContent: "no" }));
      if (now.length) select.value = now[0].value ? "yes" : "no";
      select.addEventListener("change", () => set(select.value ? [{ column: column.name, operation: "is", value: select.value === "yes" }] : []));
      field.append(make("div", {}, select));
    } else if (column.kind === "choice") {
      const picked = new Set(now.length ? now[0].value : []);
      const box = make("div", { className: "choices" });
      for (const choice of column.choices) {
        const tick = make("input", { type: "checkbox", checked: picked.has(choice) });
        tick.addEventListener("change", () => {
          if (tick.checked) picked.add(choice); else picked.delete(choice);
          set(picked.size ? [{ column: column.name, operation: "any_of", value: [...picked] }] : []);
        });
        box.append(make("label", {}, tick, ` ${choice}`));
      }
      field.append(box);
    } else {
      const input = make("input", { type: "search", ariaLabel: `${column.name} contains`, placeholder: "contains" });
      if (now.length) input.value = now[0].value;
      input.addEventListener("input", later(() => set(input.value ? [{ column: column.name, operation: "contains", value: input.value }] : []), 250));
      field.append(make("div", {}, input));
    }
    return field;
  };

  const controls = () => $("filters").replaceChildren(...about.columns.map(control));

  const histograms = async (mine) => {
    for (const bars of document.querySelectorAll(".histogram")) {
      const found = await (await ask("api/histogram", { ...question(), column: bars.dataset.column })).json();
      if (mine !== latest) return;
      const most = Math.max(1, ...found.counts);
      bars.replaceChildren(...found.counts.map((count) => {
        const bar = document.createElement("i");
        bar.style.height = `${100 * Math.sqrt(count / most)}%`;
        return bar;
      }));
      bars.title = "Counts among the examples found (heights by square root)";
    }
  };

  const picture = (place, size, rows) => {
    const spot = make("span", { className: "picture" });
    const { width, height } = about.thumbnails;
    const scale = Math.max(1, Math.floor(size / Math.max(width, height)));
    const columns = about.spriteColumns;
    spot.style.width = `${width * scale}px`;
    spot.style.height = `${height * scale}px`;
    spot.style.backgroundImage = `url(api/sprite?rows=${rows.map((row) => row.row).join(",")})`;
    spot.style.backgroundSize = `${columns * width * scale}px auto`;
    spot.style.backgroundPosition = `-${(place % columns) * width * scale}px -${Math.floor(place / columns) * height * scale}px`;
    return spot;
  };

  const tell = () => {
    $("chosen").textContent = chosen.size ? `${counted(chosen.size)} selected` : "None selected";
    $("unselect").disabled = !chosen.size;
    $("export").textContent = chosen.size ? "Export the selected as a subset" : `Export all ${counted(total)} as a subset`;
    $("export").disabled = !chosen.size && !total;
  };

  const tickbox = (row, item) => {
    const tick = make("input", { type: "checkbox", checked: chosen.has(row.row), ariaLabel: `Select ${row.id}` });
    tick.addEventListener("change", () => {
      if (tick.checked) chosen.add(row.row); else chosen.delete(row.row);
      item.classList.toggle("chosen", tick.checked);
      tell();
    });
    item.classList.toggle("chosen", tick.checked);
    return tick;
  };

  const story = (row) => {
    $("story-title").textContent = row.id;
    $("story-picture").replaceChildren(...(about.thumbnails ? [picture(0, 256, [row])] : []));
    $("story-facts").replaceChildren(...Object.entries(row).filter(([name]) => name !== "row").flatMap(([name, value]) =>
      [make("dt", { textContent: name }), make("dd", { textContent: shown(value) })]));
    $("story").showModal();
  };

  const gallery = (rows) => {
    const list = make("ul", { className: "gallery" });
    rows.forEach((row, place) => {
      const item = document.createElement("li");
      const open = make("button", { type: "button", className: "open" });
      if (about.thumbnails) open.append(picture(place, 112, rows));
      open.append(make("span", { className: "name", textContent: row.label === undefined ? row.id : shown(row.label) }));
      const words = [];
      if (row.predicted !== undefined && row.predicted !== row.label) words.push(`predicted ${shown(row.predicted)}`);
      if (state.sort && !["id", "label", "predicted"].includes(state.sort)) words.push(`${state.sort} ${shown(row[state.sort])}`);
      open.append(make("span", { className: "more", textContent: words.join(" · ") }));
      open.addEventListener("click", () => story(row));
      item.append(open, tickbox(row, item));
      list.append(item);
    });
    return list;
  };

  const table = (rows) => {
    const names = about.columns.map((column) => column.name);
    const head = make("tr", {}, make("th", { textContent: "" }), ...names.map((name) => make("th", { scope: "col", textContent: name })));
    const body = rows.map((row) => {
      const line = document.createElement("tr");
      line.append(make("td", {}, tickbox(row, line)), ...names.map((name) => make("td", { textContent: shown(row[name]) })));
      return line;
    });
    return make("div", { className: "scroll", tabIndex: 0 }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
  };

  const update = async () => {
    const mine = ++latest;
    remember();
    try {
      const found = await (await ask("api/rows", { ...question(), offset: state.offset, limit: about.page })).json();
      if (mine !== latest) return;
      total = found.total;
      $("complaint").hidden = true;
      $("count").textContent = `${counted(total)} of ${counted(about.rows)} examples`;
      $("where").textContent = total ? `${counted(found.offset + 1)}–${counted(found.offset + found.rows.length)} of ${counted(total)}` : "No example passes these filters";
      $("back").disabled = state.offset === 0;
      $("next").disabled = state.offset + found.rows.length >= total;
      $("results").replaceChildren(state.table ? table(found.rows) : gallery(found.rows));
      tell();
      document.body.dataset.ready = String(mine);
      await histograms(mine);
    } catch (error) {
      complain(error);
    }
  };

  const start = async () => {
    recall();
    about = await (await ask("api/table")).json();
    document.title = about.title;
    $("title").textContent = about.title;
    const names = about.columns.map((column) => column.name);
    if (!state.sort) state.sort = names.includes("confusion") ? "confusion" : "";
    $("sort").append(make("option", { value: "", textContent: "the table's order" }), ...names.map((name) => make("option", { value: name, textContent: name })));
    $("sort").value = state.sort;
    const directed = () => {
      $("direction").setAttribute("aria-pressed", String(state.descending));
      $("direction").textContent = state.descending ? "Largest first" : "Smallest first";
      $("view").setAttribute("aria-pressed", String(state.table));
    };
    directed();
    controls();
    if (matchMedia("(max-width: 48rem)").matches) $("filter-fold").open = false;
    $("sort").addEventListener("change", () => { state.sort = $("sort").value; state.offset = 0; update(); });
    $("direction").addEventListener("click", () => { state.descending = !state.descending; state.offset = 0; directed(); update(); });
    $("view").addEventListener("click", () => { state.table = !state.table; directed(); update(); });
    $("clear").addEventListener("click", () => { state.filters = {}; state.offset = 0; controls(); update(); });
    $("unselect").addEventListener("click", () => { chosen.clear(); update(); });
    const turn = (by) => { state.offset = Math.max(0, state.offset + by); update(); $("results").focus(); scrollTo(0, 0); };
    $("back").addEventListener("click", () => turn(-about.page));
    $("next").addEventListener("click", () => turn(about.page));
    $("filters").addEventListener("submit", (event) => event.preventDefault());
    $("export").addEventListener("click", async () => {
      try {
        const body = chosen.size ? { rows: [...chosen] } : question();
        const blob = await (await ask("api/subset", body)).blob();
        const link = make("a", { href: URL.createObjectURL(blob), download: "subset.json" });
        link.click();
      } catch (error) {
        complain(error);
      }
    });
    await update();
  };

  start().catch(complain);
})();
