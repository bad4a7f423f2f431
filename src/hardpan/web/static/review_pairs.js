// Near-duplicates, one pair at a time: keep, remove, undo; decisions travel while the next pair is looked at.

import { newExample, showExample } from "./grid.js";
import { Outbox } from "./outbox.js";
import { announce, newKey, noun, persist, plainKey, storage, toast } from "./talk.js";

const $ = (id) => document.getElementById(id);
const SPLITS = { new: `Another new ${noun}`, original: "Original set", train: "Original training set", test: "Original test set" };
let waiting = [], left = 0, decided = [], current = null;
const show = (name) => { for (const id of ["task", "waiting", "thanks"]) $(id).hidden = id !== name; };
const source = (id) => `/review/image?id=${encodeURIComponent(id)}`;
const gap = (pair) => `/review/difference?id=${encodeURIComponent(pair.image)}&other=${encodeURIComponent(pair.other)}`;

const outbox = new Outbox({
  delivered: () => {},
  refused: (item, error) => toast(error.message),
  changed: (count) => { $("sending").hidden = count === 0; $("sending").textContent = `Saving ${count} …`; },
});
const drained = () => new Promise((resolve) => { const check = () => (outbox.length ? setTimeout(check, 50) : resolve()); check(); });

async function refill() {
  await drained(); // what is decided must not come back
  const answer = await persist("/review/api/pairs", {}, () => toast("The server cannot be reached. This page retries automatically."));
  waiting = answer.pairs;
  left = answer.left;
}

async function next() {
  if (!waiting.length) { show("waiting"); await refill(); }
  current = waiting[0] ?? null;
  if (!current) { show("thanks"); $("undo-last").hidden = !decided.length; announce("Every pair has been decided."); return; }
  for (const [id, src] of [["image", source(current.image)], ["other", source(current.other)], ["gap", gap(current)]]) showExample($(id), src);
  $("place").textContent = SPLITS[current.other_split] ?? current.other_split;
  $("l2").textContent = current.l2.toPrecision(3);
  $("ssim").textContent = current.ssim.toFixed(3);
  $("left").textContent = `${left} pair${left === 1 ? "" : "s"} waiting`;
  $("undo").disabled = !decided.length;
  show("task");
  announce(`Pair with ${$("place").textContent}. ${$("numbers").innerText}`);
  for (const pair of waiting.slice(1, 3)) for (const src of [source(pair.image), source(pair.other), gap(pair)]) showExample(newExample(), src);
}

function decide(verdict) {
  if (!current || !$("criteria").hidden) return;
  const pair = current;
  current = null;
  outbox.add("/review/api/pair", { subject: pair.subject, verdict, key: newKey() });
  decided.push(pair);
  waiting = waiting.filter((other) => other !== pair);
  left -= 1;
  announce(verdict === "keep" ? "Kept." : "Removed.");
  next();
}

function undo() {
  const pair = decided.pop();
  if (!pair) return;
  outbox.add("/review/api/pair", { subject: pair.subject, verdict: "open", key: newKey() });
  waiting = [pair, ...waiting];
  left += 1;
  next();
}

function help() {
  const box = $("criteria");
  box.hidden = !box.hidden;
  for (const id of ["task", "waiting"]) $(id).classList.toggle("behind", !box.hidden); // one thing on the screen
  $("help").setAttribute("aria-expanded", String(!box.hidden));
  storage.set("pairs instructed", true);
}

$("keep").addEventListener("click", () => decide("keep"));
$("remove").addEventListener("click", () => decide("remove"));
$("undo").addEventListener("click", undo);
$("undo-last").addEventListener("click", undo);
$("help").addEventListener("click", help);
$("understood").addEventListener("click", help);
addEventListener("keydown", (event) => {
  if (!plainKey(event) || event.repeat) return;
  const keys = { k: () => decide("keep"), r: () => decide("remove"), u: undo, "?": help };
  const key = event.key.toLowerCase();
  if (key in keys) { event.preventDefault(); keys[key](); }
});
if (!storage.get("pairs instructed")) help();
outbox.flush();
next().catch((error) => toast(error.message));
