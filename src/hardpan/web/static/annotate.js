// The annotator's page: one grid after the other, without a reload; answers travel while the next grid is looked at.

import { Grid, closerLook, newExample, showExample } from "./grid.js";
import { Outbox } from "./outbox.js";
import { Refused, announce, newKey, noun, persist, plainKey, storage, toast } from "./talk.js";

const $ = (id) => document.getElementById(id);
const SECTIONS = ["instructions", "task", "waiting", "thanks"];
const SIZES = ["medium", "large", "small"];
let current = null; // the task on the screen
let ahead = null; // the promise of the next one
let sent = new Set(); // tasks that were submitted and may not be confirmed yet
let finished = false; // nothing more for this worker: said by the server

const show = (name) => { for (const id of SECTIONS) $(id).hidden = id !== name; };
const grid = new Grid($("grid"), { changed: changed, enter: () => done(), word: "selected" });
const look = closerLook(grid);
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

const outbox = new Outbox({
  delivered: (item, answer) => { storage.remove(`picked ${item.body.task}`); progress({ done: answer.done }); },
  refused: (item, error) => {
    storage.remove(`picked ${item.body.task}`);
    toast(error.status === 410 ? "A task expired and was completed by others; its answers were not needed." : error.message);
  },
  changed: (waiting) => {
    $("sending").hidden = waiting === 0;
    $("sending").textContent = navigator.onLine ? `Sending ${plural(waiting, "task")} …` : `Offline: ${plural(waiting, "task")} stored in this browser until the connection is back.`;
  },
});

async function take(besides) {
  const answer = await persist("/annotate/api/task", { besides }, () => {
    if (!current) { $("why").textContent = "The server cannot be reached. This page retries automatically; nothing is lost."; show("waiting"); }
  });
  progress(answer);
  if (answer.task) {
    answer.task.until = Date.now() + 1000 * answer.task.seconds;
    for (const source of answer.task.images) showExample(newExample(), source); // into the browser's cache
  }
  return answer;
}

// Tasks whose answers are still on their way must not come back as fresh ones.
const held = () => [...sent, ...outbox.items().map((item) => item.body.task), ...(current ? [current.id] : [])]
  .filter((value, at, all) => all.indexOf(value) === at).slice(-8);
const prefetch = () => {
  ahead = take(held()).catch((error) => error);
};

async function next() {
  current = null;
  if (!ahead) prefetch();
  const wait = setTimeout(() => { if (!current) { $("why").textContent = `Loading the next ${noun}s.`; show("waiting"); } }, 250);
  let answer = await ahead;
  ahead = null;
  if (answer.task && answer.task.until < Date.now()) answer = await take(held()).catch((error) => error); // waited too long
  if (!(answer instanceof Error) && !answer.task) {
    // Nothing ahead: perhaps only because answers were under way. Ask once more when they have arrived.
    await drained();
    sent = new Set();
    answer = await take([]).catch((error) => error);
  }
  clearTimeout(wait);
  if (answer instanceof Error) { refusedEntry(answer); return; }
  if (!answer.task) { thanks(answer, true); return; }
  open(answer.task);
  prefetch();
}

const drained = () => new Promise((resolve) => {
  const check = () => (outbox.length ? setTimeout(check, 100) : resolve());
  check();
});

function refusedEntry(error) {
  $("why").textContent = error instanceof Refused ? error.message : String(error);
  show("waiting");
}

function open(task) {
  current = task;
  finished = false;
  $("name").textContent = task.name;
  $("definition").textContent = task.definition;
  $("more").hidden = !task.link;
  if (task.link) $("more").href = task.link;
  const images = task.images.map((src, place) => ({ id: place, src }));
  grid.show(images, storage.get(`picked ${task.id}`) ?? []);
  show("task");
  scrollTo(0, 0);
  grid.focus(0);
  announce(`${$("asked").textContent} ${task.definition} ${plural(task.images.length, noun)}.`);
  $("hints").hidden = (storage.get("finished tasks") ?? 0) >= 2;
}

function changed(selection) {
  $("picked").textContent = `${selection.length} selected`;
  $("done").disabled = false;
  if (current) storage.set(`picked ${current.id}`, selection);
  armed = false;
}

let known = { done: 0, project: null };
function progress(news) {
  known = { ...known, ...news };
  $("progress").textContent = known.done ? `· ${plural(known.done, "task")} done` : "";
  if (known.project?.needed) {
    $("bar").max = known.project.needed;
    $("bar").value = known.project.done;
  }
}

let armed = false;
function done() {
  if (!current) return;
  if (grid.selection.length === 0 && !armed) {
    armed = true;
    toast(`Nothing is selected. Press again if none of these ${noun}s is of the class.`);
    $("none").classList.add("main");
    return;
  }
  submit();
}

function submit() {
  if (!current) return;
  armed = false;
  document.querySelector(".toast")?.remove();
  $("none").classList.remove("main");
  const task = current;
  sent.add(task.id);
  if (sent.size > 20) sent = new Set([...sent].slice(-8));
  storage.set("finished tasks", (storage.get("finished tasks") ?? 0) + 1);
  outbox.add("/annotate/api/submit", { task: task.id, selected: grid.selection, key: newKey() });
  next();
}

function none() {
  if (!current) return;
  grid.clear();
  submit();
}

function thanks(answer, nothingLeft) {
  finished = nothingLeft;
  const open = known.project && known.project.done < known.project.needed;
  $("thanks-title").textContent = known.done ? "Thank you" : "No tasks";
  const looked = known.done ? `You have done ${plural(known.done, "task")}. ` : "";
  $("thanks-text").textContent = !nothingLeft ? `${looked}You can resume at any time.`
    : looked + (open ? "There are no more tasks for you now; some may be returned by others." : "All tasks are complete.");
  $("code-line").hidden = !known.done || !answer.code;
  $("code").textContent = answer.code ?? "";
  show("thanks");
  $("thanks-title").focus();
}

async function stop() {
  await drained();
  const { code, done: count } = await persist("/annotate/api/code", {});
  progress({ done: count });
  thanks({ code }, false);
}

// While someone is looking, the task stays theirs.
let busy = Date.now();
for (const kind of ["keydown", "pointerdown"]) addEventListener(kind, () => { busy = Date.now(); }, { passive: true });
setInterval(async () => {
  if (!current || document.hidden || !navigator.onLine) return;
  const task = current, left = task.until - Date.now();
  if (left > 500 * task.seconds || Date.now() - busy > 500 * task.seconds || task.renewing) return;
  task.renewing = true;
  try {
    const { seconds } = await persist("/annotate/api/renew", { task: task.id });
    Object.assign(task, { seconds, until: Date.now() + 1000 * seconds });
  } catch (error) {
    if (current === task) { toast("This task expired and was completed by others. Here is the next one."); next(); }
  }
  task.renewing = false;
}, 2000);

function instructions() {
  $("start").textContent = current ? "Continue" : "Start";
  show("instructions");
  $("start").focus();
}

function size(step) {
  const now = storage.get("size") ?? "medium";
  const chosen = SIZES[(SIZES.indexOf(now) + step) % SIZES.length];
  storage.set("size", chosen);
  $("grid").dataset.size = chosen;
  $("size").textContent = `Size: ${chosen}`;
}

$("done").addEventListener("click", done);
$("none").addEventListener("click", none);
$("undo").addEventListener("click", () => grid.undo());
$("help").addEventListener("click", instructions);
$("size").addEventListener("click", () => size(1));
$("stop").addEventListener("click", stop);
$("start").addEventListener("click", () => { storage.set("instructed", true); if (current) { show("task"); grid.focus(grid.at ?? 0); } else next(); });
$("again").addEventListener("click", () => { if (current && !finished) { show("task"); grid.focus(grid.at ?? 0); } else { ahead = null; next(); } });
$("copy").addEventListener("click", () => navigator.clipboard?.writeText($("code").textContent).then(() => toast("Copied.")));

addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && !$("task").hidden) { event.preventDefault(); grid.undo(); return; }
  if (!plainKey(event) || event.repeat) return;
  const key = event.key.toLowerCase();
  if (key === "?") { instructions(); return; }
  if ($("task").hidden) return;
  const onButton = event.target.closest?.("button, a");
  const keys = { u: () => grid.undo(), backspace: () => grid.undo(), n: none, z: look };
  if (key in keys) { event.preventDefault(); keys[key](); }
  else if (key === "enter" && !onButton) { event.preventDefault(); done(); }
  else if (key.startsWith("arrow") && !onButton) { event.preventDefault(); grid.focus(grid.at ?? 0); }
});

size(0);
outbox.flush();
prefetch();
if (storage.get("instructed")) next();
else instructions();
