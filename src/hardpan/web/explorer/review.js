// The review of a random sample of labels: one label at a time, every answer is sent at once.
(function () {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const words = { right: "right", wrong: "wrong", ambiguous: "ambiguous", skipped: "skipped" };
  let sample = null;
  let at = 0;
  let sending = false;

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
  const judge = async (verdict, rightClass) => {
    if (sending) return;
    sending = true;
    try {
      const answer = await ask("api/review", { position: at, verdict, right_class: rightClass || "" });
      Object.assign(sample.items[at], { verdict, right_class: rightClass || "" });
      Object.assign(sample, answer);
      $("complaint").hidden = true;
      if (document.activeElement) document.activeElement.blur();
      const open = sample.items.findIndex((item, place) => place > at && !item.verdict);
      const first = sample.items.findIndex((item) => !item.verdict);
      if (open >= 0 || first >= 0) at = open >= 0 ? open : first;
      show();
    } catch (error) {
      complain(error);
    } finally {
      sending = false;
    }
  };

  const start = async () => {
    sample = await ask("api/review");
    $("class").append(...["", ...sample.classes].map((name) => Object.assign(document.createElement("option"), { value: name, textContent: name || "not known" })));
    at = Math.max(0, sample.items.findIndex((item) => !item.verdict));
    for (const button of document.querySelectorAll("[data-verdict]")) button.addEventListener("click", () => judge(button.dataset.verdict));
    $("wrong").addEventListener("submit", (event) => { event.preventDefault(); judge("wrong", $("class").value); });
    $("back").addEventListener("click", () => step(-1));
    $("next").addEventListener("click", () => step(1));
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target.closest("select")) {
        if (event.key === "Enter") { event.preventDefault(); $("wrong").requestSubmit(); }
        return;
      }
      const verdict = { r: "right", a: "ambiguous", s: "skipped" }[event.key];
      if (verdict) judge(verdict);
      else if (event.key === "w") { event.preventDefault(); $("class").focus(); }
      else if (event.key === "ArrowLeft") step(-1);
      else if (event.key === "ArrowRight") step(1);
    });
    show();
    document.body.dataset.ready = "1";
  };

  start().catch(complain);
})();
