// The owner's page: figures that keep themselves fresh, invitations, and a way out.

import { persist, post, toast } from "./talk.js";

const $ = (id) => document.getElementById(id);
const EVERY = 4000;
let shown = "";
let asking = 0; // until when a button waits for its second click
let leaving = false;

function leave(address) { // once: a second navigation would abort the first
  if (leaving) return;
  leaving = true;
  location.replace(address);
}

async function refresh() {
  try {
    const answer = await fetch(`/owner/live?class=${encodeURIComponent($("class").value)}`, { credentials: "same-origin", cache: "no-store" });
    if (answer.status === 401) { leave("/owner/enter"); return; }
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const text = await answer.text();
    // Untouched when nothing changed, so that a selection or a scrolled table stays as it is.
    if (text !== shown) { shown = text; replace(text); }
    $("when").textContent = `as of ${new Date().toLocaleTimeString()}`;
  } catch {
    $("when").textContent = "no connection; the figures are not current";
  }
}

function replace(text) {
  const places = [...document.querySelectorAll("#figures .scroll")].map((box) => [box.scrollLeft, box.scrollTop]);
  $("figures").innerHTML = text; // the server escapes every name; scripts in it would not run under this page's policy
  $("figures").setAttribute("aria-busy", "false");
  document.querySelectorAll("#figures .scroll").forEach((box, at) => { if (places[at]) [box.scrollLeft, box.scrollTop] = places[at]; });
}

$("class").addEventListener("change", refresh);
$("invite").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    const { paths } = await post("/owner/api/invite", { role: $("role").value, uses: Number($("uses").value), count: Number($("count").value), label: $("label").value.trim() });
    $("links").value = paths.map((path) => location.origin + path).join("\n");
    $("made").hidden = false;
    $("links").focus();
    $("links").select();
    refresh();
  } catch (error) {
    toast(error.message);
  }
});
$("figures").addEventListener("click", async (event) => {
  const { revoke, block, exclude, unblock } = event.target.dataset ?? {};
  const send = (path, body) => persist(path, body).catch((error) => toast(error.message));
  if (!revoke && !block && !unblock) return;
  if (!unblock && event.target.dataset.armed === undefined) { // asks once; the page is not refreshed meanwhile
    event.target.dataset.armed = "";
    event.target.textContent = revoke ? "End it and sign out everyone who used it" : exclude ? "Block and exclude all votes" : "Block and keep the votes";
    event.target.classList.add("bad");
    asking = Date.now() + 8000;
    return;
  }
  asking = 0;
  if (revoke) await send("/owner/api/revoke", { invitation: revoke });
  else if (block) await send("/owner/api/block", { worker: block, exclude: exclude !== undefined });
  else await send("/owner/api/unblock", { worker: unblock });
  refresh();
});
$("leave").addEventListener("click", async () => { const { next } = await post("/owner/api/leave", {}); leave(next); });
setInterval(() => { if (!document.hidden && Date.now() > asking) refresh(); }, EVERY);
refresh();
