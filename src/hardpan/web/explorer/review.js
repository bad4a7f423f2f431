// The review of labels, one at a time, every answer is sent at once: of a random sample, or the suspicious ones first.
(function () {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const BULK = 10;
  const words = { right: "right", accepted: "suggestion accepted", wrong: "wrong", ambiguous: "ambiguous", skipped: "skipped" };
  let sample = null;
  let at = 0;
  let sending = false;
  const done = [];  // answers that can be taken back, the latest last

  const ask = async (path, body) => {
    const response = await fetch(path, body ? { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) } : undefined);
    const answer = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
    if (!response.ok) throw new Error(answer.error);
    return answer;
  };
  const complain = (error) => {
    $("complaint").textContent = error instanceof TypeError ? "The server does not answer; start hardpan browse again." : error.message;
    $("complaint").hidden = false;
  };

  const show = () => {
    const item = sample.items[at];
    $("count").textContent = `${sample.judged.toLocaleString("en")} of ${sample.items.length.toLocaleString("en")} judged`;
    $("where").textContent = `${at + 1}: ${item.where}`;
    $("label").textContent = item.label;
    $("answer").textContent = item.verdict ? `Your answer: ${words[item.verdict]}${item.right_class ? `, ${item.right_class}` : ""}` : "";
    $("class").value = item.right_class;
    $("back").disabled = at === 0;
    $("next").disabled = at === sample.items.length - 1;
    $("content").hidden = !item.content.length;
    $("near").textContent = item.near ? `nearest training example: ${item.near.where}, ${item.near.label}` : "";
    $("content").tBodies[0].replaceChildren(...item.content.map(([name, value], place) => {
      const other = item.near?.content[place]?.[1];
      const line = document.createElement("tr");
      line.append(...[["th", name], ["td", value], ["td", other ?? ""]].map(([tag, text]) => Object.assign(document.createElement(tag), { textContent: text })));
      line.classList.toggle("differs", other !== undefined && other !== value);
      return line;
    }));
    if (sample.queue) {
      $("suggested").textContent = item.suggested;
      $("probability").textContent = `${(100 * item.probability).toFixed(item.probability < 0.1 ? 1 : 0)} %`;
    }
    $("undo").disabled = !done.length;
    $("picture").replaceChildren();
    if (sample.thumbnails) {
      const { width, height } = sample.thumbnails;
      const scale = Math.max(1, Math.floor(256 / Math.max(width, height)));
      const spot = document.createElement("span");
      spot.className = "picture";
      spot.style.width = `${width * scale}px`;
      spot.style.height = `${height * scale}px`;
      spot.style.backgroundImage = `url(api/sprite?rows=${item.index})`;
      spot.style.backgroundSize = `${sample.spriteColumns * width * scale}px auto`;
      spot.style.margin = "0";
      $("picture").append(spot);
    }
    $("result").hidden = !sample.result;
    if (sample.result) [$("result-title").textContent, $("result-words").textContent] = sample.result;
    document.body.dataset.at = String(at);
  };
  const step = (by) => {
    at = Math.min(sample.items.length - 1, Math.max(0, at + by));
    show();
  };
  const send = async (places, verdict, rightClass) => {
    const body = sample.queue ? { positions: places } : { position: places[0] };
    const answer = await ask("api/review", { ...body, verdict, right_class: rightClass || "" });
    places.forEach((place, number) => Object.assign(sample.items[place], answer.answers?.[number] ?? { verdict, right_class: rightClass || "" }));
    Object.assign(sample, { judged: answer.judged, result: answer.result });
  };
  const judge = async (verdict, rightClass, places) => {
    if (sending) return;
    sending = true;
    places ??= [at];
    const before = places.map((place) => ({ place, verdict: sample.items[place].verdict, right_class: sample.items[place].right_class }));
    try {
      if (sample.queue && verdict === "skipped") step(1);
      else if (sample.queue && verdict === "wrong" && !rightClass) throw new Error("Choose the right class, or answer ambiguous (a).");
      else {
        await send(places, verdict, rightClass);
        done.push(before);
        const open = sample.items.findIndex((item, place) => place > Math.max(...places) && !item.verdict);
        const first = sample.items.findIndex((item) => !item.verdict);
        if (open >= 0 || first >= 0) at = open >= 0 ? open : first;
      }
      $("complaint").hidden = true;
      if (document.activeElement) document.activeElement.blur();
      show();
    } catch (error) {
      complain(error);
    } finally {
      sending = false;
    }
  };
  const undo = async () => {
    if (sending || !done.length) return;
    sending = true;
    try {
      for (const { place, verdict, right_class } of done.at(-1)) await send([place], verdict, verdict === "wrong" ? right_class : "");
      at = done.pop()[0].place;
      $("complaint").hidden = true;
      show();
    } catch (error) {
      complain(error);
    } finally {
      sending = false;
    }
  };
  const bulk = () => {
    const places = sample.items.map((item, place) => place).filter((place) => place >= at && !sample.items[place].verdict).slice(0, BULK);
    if (places.length) judge("accepted", "", places);
  };

  const start = async () => {
    sample = await ask("api/review");
    $("class").append(...["", ...sample.classes].map((name) => Object.assign(document.createElement("option"), { value: name, textContent: name || "not known" })));
    at = Math.max(0, sample.items.findIndex((item) => !item.verdict));
    for (const button of document.querySelectorAll("[data-verdict]")) button.addEventListener("click", () => judge(button.dataset.verdict));
    $("wrong").addEventListener("submit", (event) => { event.preventDefault(); judge("wrong", $("class").value); });
    $("undo").addEventListener("click", undo);
    $("bulk").addEventListener("click", bulk);
    if (sample.queue) {
      document.querySelector("[data-verdict=accepted]").hidden = $("bulk").hidden = $("suggestion").hidden = false;
      $("about").textContent = "Labels that differ from what models predict, the least probable first. Answers are saved at once to corrections.csv; a model may be wrong as well. To count the wrong labels, review a random sample: hardpan browse DIR --review 200.";
    }
    if (!sample.items.length) {
      $("task").hidden = true;
      $("count").textContent = "No label differs from what models predict";
      document.body.dataset.ready = "1";
      return;
    }
    $("back").addEventListener("click", () => step(-1));
    $("next").addEventListener("click", () => step(1));
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target.closest("select")) {
        if (event.key === "Enter") { event.preventDefault(); $("wrong").requestSubmit(); }
        return;
      }
      const verdict = { r: "right", a: "ambiguous", s: "skipped", ...(sample.queue ? { y: "accepted" } : {}) }[event.key];
      if (verdict) judge(verdict);
      else if (event.key === "w") { event.preventDefault(); $("class").focus(); }
      else if (event.key === "u") undo();
      else if (event.key === "Y" && sample.queue) bulk();
      else if (event.key === "ArrowLeft") step(-1);
      else if (event.key === "ArrowRight") step(1);
    });
    show();
    document.body.dataset.ready = "1";
  };

  start().catch(complain);
})();
