// The explorer's page: asks the server for one page of rows at a time, and keeps what was asked in the address.
(function () {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const make = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties || {});
    element.append(...children);
    return element;
  };
  const state = { filters: {}, sort: "", descending: true, offset: 0, table: false, marked: false, sides: false, first: "", second: "", id: "" };
  const chosen = new Set();
  let about = null;
  let total = 0;
  let latest = 0;
  let page = [];  // the rows on the screen
  let open = -1;  // which of them is open
  const title = (name) => about.columns.find((column) => column.name === name)?.title ?? name;
  // "test 2487" or the file: how a person finds the example again.
  const whereabouts = (row) => row.path || [row.split ?? row.part, row.row].filter((value) => value !== undefined && value !== null && value !== "").join(" ") || row.id;

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
    ($("story").open ? $("story") : document.body).append($("complaint"));  // an open dialog covers the page
  };
  const later = (work, wait) => {
    let timer = 0;
    return () => { clearTimeout(timer); timer = setTimeout(work, wait); };
  };

  const filters = () => Object.values(state.filters).flat();
  const question = () => ({ filters: filters(), sort: state.sort, descending: state.descending });
  const remember = () => {
    const kept = { ...state, id: undefined };
    history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify(kept))}`);
  };
  const recall = () => {
    if (location.hash.length < 2) return;
    if (location.hash.startsWith("#id=")) {  // a link from the report
      state.id = decodeURIComponent(location.hash.slice(4));
      return;
    }
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
    const field = make("fieldset", {}, make("legend", { textContent: column.title }));
    if (column.kind === "number") {
      const bars = make("div", { className: "histogram", ariaHidden: "true" });
      bars.dataset.column = column.name;
      const end = (operation, words) => {
        const input = make("input", { type: "number", step: "any", ariaLabel: `${column.title}: ${words}` });
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
      const select = make("select", { ariaLabel: column.title },
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
      const input = make("input", { type: "search", ariaLabel: `${column.title} contains`, placeholder: "contains" });
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
    spot.style.backgroundImage = `url(api/sprite?rows=${rows.map((row) => row.index).join(",")})`;
    spot.style.backgroundSize = `${columns * width * scale}px auto`;
    spot.style.backgroundPosition = `-${(place % columns) * width * scale}px -${Math.floor(place / columns) * height * scale}px`;
    return spot;
  };

  const tell = () => {
    $("chosen").textContent = chosen.size ? `${counted(chosen.size)} selected` : "None selected";
    $("unselect").disabled = !chosen.size;
    $("tag-selected").disabled = !chosen.size;
    $("export").textContent = chosen.size ? "Export the selected as a subset" : `Export all ${counted(total)} as a subset`;
    $("export").disabled = !chosen.size && !total;
  };

  const tickbox = (row, item) => {
    const tick = make("input", { type: "checkbox", checked: chosen.has(row.index), ariaLabel: `Select ${whereabouts(row)}` });
    tick.addEventListener("change", () => {
      if (tick.checked) chosen.add(row.index); else chosen.delete(row.index);
      item.classList.toggle("chosen", tick.checked);
      tell();
    });
    item.classList.toggle("chosen", tick.checked);
    return tick;
  };

  const mark = async (rows, change) => {
    const answer = await (await ask("api/marks", { rows: rows.map((row) => row.index), ...change })).json();
    rows.forEach((row, place) => { row.mark = answer.marks[place]; });
    about.tags = answer.tags;
    about.marked = answer.marked;
    $("complaint").hidden = true;
    tags();
  };
  const tags = () => {
    $("tags").replaceChildren(...about.tags.map((tag) => make("option", { value: tag })));
    $("marked").hidden = $("corrections").hidden = !about.marked;
    $("corrections").textContent = `corrections.csv (${counted(about.marked)})`;
  };
  const marking = (row) => {
    $("relabel").value = row.mark.corrected_label;
    $("story-tags").replaceChildren(...row.mark.tags.map((tag) => {
      const off = make("button", { type: "button", textContent: "×", ariaLabel: `Remove the tag ${tag}` });
      off.addEventListener("click", () => mark([row], { remove: tag }).then(() => marking(row)).catch(complain));
      return make("span", { className: "tag" }, tag, off);
    }));
  };

  const story = (row) => {
    open = page.indexOf(row);
    $("story-title").textContent = whereabouts(row);
    $("story-picture").replaceChildren(...(about.thumbnails ? [picture(0, 256, [row])] : []));
    $("story-facts").replaceChildren(...Object.entries(row).filter(([name, value]) => !["index", "mark"].includes(name) && value !== null).flatMap(([name, value]) =>
      [make("dt", { textContent: title(name) }), make("dd", { textContent: shown(value) })]));
    $("story-back").disabled = open <= 0;
    $("story-next").disabled = open < 0 || open >= page.length - 1;
    marking(row);
    if (!$("story").open) $("story").showModal();
  };
  const step = (by) => { if (page[open + by]) story(page[open + by]); };

  const brief = (value) => shown(value).length > 140 ? `${shown(value).slice(0, 139)}…` : shown(value);
  const gallery = (rows) => {
    const contents = about.columns.map((column) => column.name).filter((name) => name === "text" || name.startsWith("feature: ")).slice(0, 4);
    const list = make("ul", { className: contents[0] === "text" && !about.thumbnails ? "gallery texts" : "gallery" });
    rows.forEach((row, place) => {
      const item = document.createElement("li");
      const button = make("button", { type: "button", className: "open" });
      if (about.thumbnails) button.append(picture(place, 112, rows));
      button.append(make("span", { className: "name", textContent: row.label === undefined ? whereabouts(row) : shown(row.label) }));
      if (row.mark.corrected_label) button.append(make("span", { className: "more corrected", textContent: `corrected: ${row.mark.corrected_label}` }));
      if (!about.thumbnails) button.append(...contents.filter((name) => row[name] !== null).map((name) => make("span", { className: "more content", textContent: name === "text" ? brief(row[name]) : `${title(name)}: ${brief(row[name])}` })));
      const words = [];
      if (row.predicted !== undefined && row.predicted !== null && row.predicted !== row.label) words.push(`predicted ${shown(row.predicted)}`);
      if (state.sort && !["id", "label", "predicted", "row", "path"].includes(state.sort)) words.push(shown(row[state.sort]));
      button.append(make("span", { className: "more", textContent: words.join(" · ") }), make("small", { textContent: whereabouts(row) }));
      if (row.mark.tags.length) button.append(make("small", { textContent: row.mark.tags.join(", ") }));
      button.addEventListener("click", () => story(row));
      item.append(button, tickbox(row, item));
      list.append(item);
    });
    return list;
  };

  const table = (rows) => {
    const names = about.columns.map((column) => column.name);
    const head = make("tr", {}, make("td", { textContent: "" }), ...names.map((name) => make("th", { scope: "col", textContent: title(name) })));
    const body = rows.map((row) => {
      const line = document.createElement("tr");
      line.append(make("td", {}, tickbox(row, line)), ...names.map((name) => make("td", { textContent: brief(row[name]) })));
      return line;
    });
    const scroll = make("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: "Examples as a table" });
    scroll.append(make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
    return scroll;
  };

  // Two models: what only one of them gets right, next to what only the other does.
  const sides = async (mine) => {
    const found = await (await ask("api/disagreements", { ...question(), first: state.first, second: state.second })).json();
    if (mine !== latest) return;
    page = [...found.first, ...found.second];
    const { both, first, second, neither } = found.counts;
    $("cases").textContent = `both right ${counted(both)} · neither ${counted(neither)}`;
    const side = (model, count, rows) => make("section", {}, make("h2", { textContent: `Only ${model} is right: ${counted(count)}` }), gallery(rows));
    $("results").replaceChildren(make("div", { className: "sides" }, side(state.first, first, found.first), side(state.second, second, found.second)));
    total = both + first + second + neither;
    $("where").textContent = "";
    $("back").disabled = $("next").disabled = true;
  };

  const update = async () => {
    const mine = ++latest;
    remember();
    try {
      $("cases").textContent = "";
      if (state.sides) {
        await sides(mine);
        $("count").textContent = `${counted(total)} of ${counted(about.rows)} examples`;
        document.body.dataset.ready = String(mine);
        return;
      }
      const found = await (await ask("api/rows", { ...question(), marked: state.marked, offset: state.offset, limit: about.page })).json();
      if (mine !== latest) return;
      page = found.rows;
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
    $("sort").append(make("option", { value: "", textContent: "the table's order" }), ...about.columns.map((column) => make("option", { value: column.name, textContent: column.title })));
    $("sort").value = state.sort;
    const directed = () => {
      $("direction").setAttribute("aria-pressed", String(state.descending));
      $("direction").textContent = state.descending ? "Largest first" : "Smallest first";
      $("view").setAttribute("aria-pressed", String(state.table));
      $("marked").setAttribute("aria-pressed", String(state.marked));
      $("side-by-side").setAttribute("aria-pressed", String(state.sides));
    };
    $("report").hidden = !about.report;
    $("queue").hidden = !about.queue;
    $("queue").textContent = `Labels to judge (${counted(about.queue)})`;
    tags();
    const labels = about.columns.find((column) => column.name === "label")?.choices ?? [];
    $("relabel").append(make("option", { value: "", textContent: "as it is" }), ...labels.map((label) => make("option", { value: label, textContent: label })));
    $("relabel").parentElement.hidden = !labels.length;
    if (about.models.length > 1) {
      $("compare").hidden = false;
      for (const name of ["first", "second"]) $(name).append(...about.models.map((model) => make("option", { value: model, textContent: model })));
      state.first ||= about.models[0];
      state.second ||= about.models[1];
      for (const name of ["first", "second"]) {
        $(name).value = state[name];
        $(name).addEventListener("change", () => { state[name] = $(name).value; update(); });
      }
    }
    directed();
    controls();
    if (matchMedia("(max-width: 48rem)").matches) $("filter-fold").open = false;
    $("sort").addEventListener("change", () => { state.sort = $("sort").value; state.offset = 0; update(); });
    $("direction").addEventListener("click", () => { state.descending = !state.descending; state.offset = 0; directed(); update(); });
    $("view").addEventListener("click", () => { state.table = !state.table; directed(); update(); });
    $("clear").addEventListener("click", () => { state.filters = {}; state.offset = 0; controls(); update(); });
    $("unselect").addEventListener("click", () => { chosen.clear(); update(); });
    $("marked").addEventListener("click", () => { state.marked = !state.marked; state.offset = 0; directed(); update(); });
    $("side-by-side").addEventListener("click", () => { state.sides = !state.sides; directed(); update(); });
    $("relabel").addEventListener("change", () => mark([page[open]], { label: $("relabel").value }).then(() => marking(page[open])).catch(complain));
    $("tag").addEventListener("change", () => {
      if (!$("tag").value.trim()) return;
      mark([page[open]], { add: $("tag").value }).then(() => { $("tag").value = ""; marking(page[open]); }).catch(complain);
    });
    let typed = "";  // a tag that could not be saved
    $("tag-selected").addEventListener("click", () => {
      const tag = typed = prompt("Tag for the selected examples", typed) ?? "";
      if (tag) mark([...chosen].map((index) => page.find((row) => row.index === index) ?? { index }), { add: tag }).then(() => { typed = ""; return update(); }).catch(complain);
    });
    $("story-back").addEventListener("click", () => step(-1));
    $("story-next").addEventListener("click", () => step(1));
    $("story").addEventListener("close", async () => {
      const id = page[open]?.id;
      const resume = () => document.querySelectorAll("#results .open")[page.findIndex((row) => row.id === id)]?.focus();
      resume(); // the keyboard works on from here, while the rows are read and after it
      await update();
      resume();
    });
    $("help").addEventListener("click", () => $("keys").showModal());
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
    // One key each for what is done a hundred times; nothing happens while a person types.
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]), select, textarea")) return;
      if ($("story").open) {
        if (event.key === "ArrowRight") step(1);
        if (event.key === "ArrowLeft") step(-1);
        if (event.key === "t") { event.preventDefault(); $("tag").focus(); }
        if (event.key === "l") { event.preventDefault(); $("relabel").focus(); }
        return;
      }
      const buttons = [...document.querySelectorAll("#results .open")];
      const at = buttons.findIndex((button) => button.parentElement.contains(document.activeElement));
      const list = document.querySelector("#results .gallery");
      const across = list ? getComputedStyle(list).gridTemplateColumns.split(" ").length : 1;
      const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across };
      if (event.key in moves && buttons.length) {
        event.preventDefault();
        buttons[Math.min(buttons.length - 1, Math.max(0, at < 0 ? 0 : at + moves[event.key]))].focus();
      } else if (event.key === "x" && at >= 0) buttons[at].parentElement.querySelector("input").click();
      else if ((event.key === "t" || event.key === "l") && at >= 0) {
        event.preventDefault();
        story(page[at]);
        $(event.key === "t" ? "tag" : "relabel").focus();
      } else if (event.key === "n" && !$("next").disabled) turn(about.page);
      else if (event.key === "p" && !$("back").disabled) turn(-about.page);
      else if (event.key === "?") $("keys").showModal();
    });
    if (state.id) {
      const found = await (await ask("api/rows", { ids: [state.id] })).json();
      page = found.rows;
      if (page.length) story(page[0]);
    }
    await update();
  };

  start().catch(complain);
})();
