// The human-accuracy experiment: one example, all classes, one answer each.

import { showExample } from "./grid.js";
import { announce, noun, persist, plainKey, storage, toast } from "./talk.js";

const $ = (id) => document.getElementById(id);
const buttons = [...document.querySelectorAll("#answers button")];
const filter = $("filter");
const Noun = noun[0].toUpperCase() + noun.slice(1);
let current = null;
const show = (name) => { for (const id of ["instructions", "task", "waiting", "thanks"]) $(id).hidden = id !== name; };
const offline = () => toast("The server cannot be reached. Your answer is stored; this page retries automatically.");

function open(answer) {
  if (answer.question === null) {
    $("thanks-text").textContent = `There are no more ${noun}s. You can close this page.`;
    show("thanks");
    announce(`Thank you. There are no more ${noun}s.`);
    return;
  }
  current = answer;
  showExample($("image"), `/people/image/${answer.question}`);
  $("progress").textContent = `${Noun} ${answer.done + 1} of ${answer.total}`;
  $("bar").max = answer.total;
  $("bar").value = answer.done;
  for (const button of buttons) { button.hidden = false; button.disabled = false; }
  if (filter) { filter.value = ""; if (!$("instructions").hidden) return; filter.focus(); }
  if ($("instructions").hidden) show("task");
  announce(`${Noun} ${answer.done + 1} of ${answer.total}.`);
}

async function choose(button) {
  if (!current || button.disabled) return;
  const question = current.question;
  current = null;
  for (const other of buttons) other.disabled = true;
  announce(button.textContent.trim());
  try {
    open(await persist("/people/api/answer", { question, class: Number(button.dataset.class) }, offline));
  } catch (error) {
    toast(error.message);
  }
}

for (const button of buttons) button.addEventListener("click", () => choose(button));
filter?.addEventListener("input", () => {
  const wanted = filter.value.trim().toLowerCase();
  for (const button of buttons) button.hidden = !button.dataset.name.includes(wanted);
});
filter?.addEventListener("keydown", (event) => {
  const left = buttons.filter((button) => !button.hidden);
  const exact = left.find((button) => button.dataset.name === filter.value.trim().toLowerCase());
  if (event.key === "Enter" && (exact || left.length === 1)) { event.preventDefault(); choose(exact ?? left[0]); }
});
addEventListener("keydown", (event) => {
  if (!plainKey(event) || event.repeat || $("task").hidden) return;
  const button = buttons.find((other) => other.dataset.key && other.dataset.key === event.key.toLowerCase());
  if (button) { event.preventDefault(); choose(button); }
});

$("help").addEventListener("click", () => { show("instructions"); $("start").focus(); });
$("start").addEventListener("click", () => { storage.set("people instructed", true); if (current) { show("task"); filter?.focus(); } else next(); });
const next = () => { show("waiting"); return persist("/people/api/question", {}, offline).then(open).catch((error) => toast(error.message)); };
if (storage.get("people instructed")) next();
else { show("instructions"); $("start").focus(); }
