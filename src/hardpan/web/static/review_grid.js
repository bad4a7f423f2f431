// Second and final review: pick what goes, keep the rest, grid by grid.

import { Grid, closerLook } from "./grid.js";
import { announce, newKey, persist, plainKey, toast } from "./talk.js";

const $ = (id) => document.getElementById(id);
const step = document.body.dataset.step;
let batch = null, sending = false;
const show = (name) => { for (const id of ["task", "waiting", "thanks"]) $(id).hidden = id !== name; };
const grid = new Grid($("grid"), {
  word: "marked for removal", mark: "×", enter: () => done(),
  changed: (selection) => { $("picked").textContent = `${selection.length} to remove, ${(batch?.images.length ?? 0) - selection.length} to keep`; },
});
const look = closerLook(grid);
const offline = () => toast("The server cannot be reached. This page retries automatically.");

async function next() {
  batch = await persist("/review/api/images", { step }, offline);
  if (!batch.images.length) { show("thanks"); announce("Nothing to review."); return; }
  $("name").textContent = batch.name;
  $("keyword").textContent = batch.keyword ? `Keyword: ${batch.keyword}.` : "";
  $("definition").textContent = batch.definition;
  $("left").textContent = `· ${batch.left} waiting in all`;
  grid.show(batch.images.map((id) => ({ id, src: `/review/image?id=${encodeURIComponent(id)}` })));
  show("task");
  grid.focus(0);
}

async function done() {
  if (sending || !batch) return;
  sending = true;
  $("done").disabled = true;
  try {
    await persist("/review/api/decide", { step, images: batch.images, removed: grid.selection, key: newKey() }, offline);
    await next();
  } catch (error) {
    toast(error.message);
  } finally {
    sending = false;
    $("done").disabled = false;
  }
}

$("done").addEventListener("click", done);
$("undo").addEventListener("click", () => grid.undo());
addEventListener("keydown", (event) => {
  if (!plainKey(event) || event.repeat || $("task").hidden) return;
  const key = event.key.toLowerCase(), keys = { u: () => grid.undo(), z: look };
  if (key in keys) { event.preventDefault(); keys[key](); }
  else if (key === "enter" && !event.target.closest?.("button, a")) { event.preventDefault(); done(); }
});
next().catch((error) => toast(error.message));
