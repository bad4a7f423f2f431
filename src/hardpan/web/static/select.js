// The first selector's page: every choice is kept at once, in order, and once.

import { Grid, closerLook, newExample, showExample } from "./grid.js";
import { Outbox } from "./outbox.js";
import { newKey, persist, plainKey, storage, toast } from "./talk.js";

const $ = (id) => document.getElementById(id);
const CHANGED = "changed"; // set when a choice was made since a page was last read from the server
const source = (id) => `/select/image?id=${encodeURIComponent(id)}`;
let data = JSON.parse($("data").textContent);
let chosen = data.selected;

const outbox = new Outbox({
  delivered: () => {},
  refused: (item, error) => { toast(error.message); location.reload(); },
  changed: (waiting) => { $("sending").hidden = waiting === 0; $("sending").textContent = `Saving ${waiting} …`; },
});

const grid = new Grid($("grid"), {
  word: "chosen",
  label: "Candidate",
  changed: (selection, what) => {
    if (what) {
      chosen += what.picked ? 1 : -1;
      storage.set(CHANGED, true);
      outbox.add("/select/api/decide", { image: what.id, picked: what.picked, key: newKey() });
    }
    count();
  },
});
const look = closerLook(grid);

function count() {
  $("picked").textContent = `${chosen} of ${data.quota} chosen`;
  const missing = data.quota - chosen;
  $("verdict").textContent = missing > 0 ? `· ${missing} missing` : missing === 0 ? "· quota reached" : `· ${-missing} to spare`;
  $("bar").max = Math.max(data.quota, 1);
  $("bar").value = Math.min(chosen, data.quota);
}

function fill() {
  grid.show(data.images.map((id) => ({ id, src: source(id) })), data.picked);
  $("earlier").disabled = data.start === 0;
  $("later").disabled = data.start + data.images.length >= data.candidates;
  $("range").textContent = data.images.length ? `${data.start + 1}–${data.start + data.images.length} of ${data.candidates}` : "no candidates";
}

async function turn(start) {
  while (outbox.length) await outbox.flush(), await new Promise((resolve) => setTimeout(resolve, 50));
  const answer = await persist("/select/api/candidates", { class: data.class, keyword: data.keyword, start });
  data = { ...answer, originals: data.originals };
  chosen = data.selected;
  fill();
  grid.focus(0);
}

$("originals").replaceChildren(...data.originals.map((id, at) => {
  const cell = Object.assign(document.createElement("div"), { className: "cell" });
  cell.setAttribute("role", "listitem");
  const example = Object.assign(newExample(), { alt: `Original ${at + 1}`, loading: "lazy" });
  showExample(example, source(id));
  cell.append(example);
  return cell;
}));
$("earlier").addEventListener("click", () => turn(Math.max(0, data.start - 100)));
$("later").addEventListener("click", () => turn(data.start + data.images.length));
$("undo").addEventListener("click", () => grid.undo());
addEventListener("keydown", (event) => {
  if (!plainKey(event) || event.repeat) return;
  const keys = { u: () => grid.undo(), z: look };
  const key = event.key.toLowerCase();
  if (key in keys) { event.preventDefault(); keys[key](); }
});
// Choices that were on their way when the page was left come first: what is shown must hold them. One may even have
// arrived after this page was written and before this line runs, so that only asking again tells.
if (outbox.length || storage.get(CHANGED)) turn(0).then(() => storage.remove(CHANGED));
else fill();
