// How pages talk to the server and to the reader.

const meta = (name) => document.querySelector(`meta[name="${name}"]`)?.content ?? "";

/** What an example is called: "image" or "text". */
export const noun = meta("noun") || "image";

export class Offline extends Error {}
export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** Post JSON and give the answer's JSON. Offline: nothing came back, try again. Refused: the server said no. */
export async function post(path, body) {
  let answer;
  try {
    answer = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-CSRF-Token": meta("csrf"), Accept: "application/json" },
      body: JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
    });
  } catch (error) {
    throw new Offline(String(error));
  }
  if (answer.status === 429 || answer.status >= 500) throw new Offline(`status ${answer.status}`);
  let content;
  try {
    content = await answer.json();
  } catch (error) {
    if (answer.ok) throw new Offline(String(error)); // cut off on its way
    content = { error: `The server answered ${answer.status}.` };
  }
  if (!answer.ok) throw new Refused(answer.status, content.error ?? `The server answered ${answer.status}.`);
  return content;
}

const pause = (milliseconds) => new Promise((resolve) => {
  const timer = setTimeout(resolve, milliseconds);
  addEventListener("online", () => { clearTimeout(timer); resolve(); }, { once: true });
});

/** Post again and again until an answer comes; `waiting` hears of every failed try. */
export async function persist(path, body, waiting = () => {}) {
  for (let tries = 0; ; tries++) {
    try {
      return await post(path, body);
    } catch (error) {
      if (!(error instanceof Offline)) throw error;
      waiting(tries);
      await pause(Math.min(15000, 500 * 2 ** tries));
    }
  }
}

/** Say something to a screen reader. */
export function announce(text) {
  const live = document.getElementById("live");
  live.textContent = "";
  requestAnimationFrame(() => { live.textContent = text; });
}

let fading;
/** Say something to everyone, for a few seconds. */
export function toast(text) {
  document.querySelector(".toast")?.remove();
  const box = Object.assign(document.createElement("div"), { className: "toast", textContent: text });
  document.body.append(box);
  announce(text);
  clearTimeout(fading);
  fading = setTimeout(() => box.remove(), 6000);
}

/** What belongs to one person in this browser; a private window without storage works too. */
export const storage = {
  key: (name) => `hardpan ${meta("person")} ${name}`,
  get(name) {
    try { return JSON.parse(localStorage.getItem(this.key(name))); } catch { return null; }
  },
  set(name, value) {
    try { localStorage.setItem(this.key(name), JSON.stringify(value)); } catch { /* full or forbidden: go on without */ }
  },
  remove(name) {
    try { localStorage.removeItem(this.key(name)); } catch { /* as above */ }
  },
};

/** Ids for submissions: made once, kept through every retry, so that the server counts each once. */
export const newKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");

/** Keys that are meant for the page: not typed into a field, not with a modifier. */
export const plainKey = (event) =>
  !event.ctrlKey && !event.metaKey && !event.altKey && !/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
