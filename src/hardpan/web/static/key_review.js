// Answer keys, one question at a time; every verdict is saved before the next question is shown as decided.

import { announce, persist, plainKey, toast } from "./talk.js";

const $ = (id) => document.getElementById(id);
const UNCLEAR = "cannot be decided";
let items = [], place = 0;
const decided = (row) => Boolean(row.correct_key || row.comment);
const percent = (share) => `${Math.round(100 * share)} %`;

function show() {
  const count = items.filter(decided).length;
  $("count").textContent = `${count} of ${items.length} decided`;
  $("progress").max = Math.max(items.length, 1);
  $("progress").value = count;
  const row = items[place];
  $("task").hidden = !row;
  $("done").hidden = Boolean(row);
  if (!row) {
    const changed = items.filter((item) => item.correct_key && item.correct_key !== item.key).length;
    $("summary").textContent = `${count} of ${items.length} decided; ${changed} with another key.`;
    announce($("summary").textContent);
    return;
  }
  $("name").textContent = `${row.item} · question ${place + 1} of ${items.length} · answered by ${row.models} models`;
  $("question").textContent = row.question || "The logs do not hold the question: look it up by its name.";
  $("comment").value = row.comment === UNCLEAR ? "" : row.comment;
  const said = row.answers.some((answer) => answer.text === row.key) ? row.answers : [...row.answers, { text: row.key, share: 0 }];
  $("answers").replaceChildren(...said.map((answer, index) => button(row, answer, index)));
  $("other").value = row.correct_key && !said.some((answer) => answer.text === row.correct_key) ? row.correct_key : "";
  $("back").disabled = place === 0;
  announce($("name").textContent);
}

function button(row, answer, index) {
  const make = (className, textContent) => Object.assign(document.createElement("span"), { className, textContent });
  const found = Object.assign(document.createElement("button"), { type: "button" });
  const number = Object.assign(document.createElement("kbd"), { textContent: String(index + 1) });
  found.append(number, make("text", answer.text));
  if (answer.text === row.key) found.append(make("key", "key"));
  found.append(make("share", `${percent(answer.share)} of models`));
  found.setAttribute("aria-pressed", String(row.correct_key === answer.text));
  found.addEventListener("click", () => decide(answer.text));
  return found;
}

async function decide(key, comment = $("comment").value.trim()) {
  const row = items[place];
  if (!row) return;
  try {
    await persist("/api/verdict", { item: row.item, correct_key: key, comment }, () => toast("The server cannot be reached. This page retries automatically."));
  } catch (error) {
    toast(error.message);
    return;
  }
  Object.assign(row, { correct_key: key, comment });
  move(1);
}

function move(by) {
  place = Math.max(0, Math.min(items.length, place + by));
  show();
}

$("use").addEventListener("click", () => { const text = $("other").value.trim(); if (text) decide(text); });
$("other").addEventListener("keydown", (event) => { if (event.key === "Enter") $("use").click(); });
$("unclear").addEventListener("click", () => decide("", $("comment").value.trim() || UNCLEAR));
$("skip").addEventListener("click", () => move(1));
$("back").addEventListener("click", () => move(-1));
$("again").addEventListener("click", () => move(-1));
addEventListener("keydown", (event) => {
  if (!plainKey(event) || event.repeat || $("task").hidden) return;
  const keys = { b: () => move(-1), s: () => move(1), x: () => $("unclear").click() };
  const key = event.key.toLowerCase();
  const answer = $("answers").children[Number(key) - 1];
  if (key in keys) keys[key]();
  else if (answer) answer.click();
  else return;
  event.preventDefault();
});
const answer = await fetch("/api/items", { cache: "no-store" });
items = (await answer.json()).items;
place = items.findIndex((row) => !decided(row));
if (place < 0) place = items.length;
show();
