// A grid of examples to pick from: arrows, space, undo; every cell is a checkbox to a screen reader.

import { announce, noun, plainKey } from "./talk.js";

/** An empty image, or where the examples are texts a box for one. */
export const newExample = () => (noun === "text" ? Object.assign(document.createElement("span"), { className: "text" }) : new Image());

/** Show the example at an address in an element; "load" or "error" happens to the element, as to an image. */
export function showExample(element, src) {
  if (noun !== "text") { element.src = src; return; }
  element.dataset.src = src;
  const happens = (what) => element.dispatchEvent(new Event(what));
  fetch(src, { credentials: "same-origin" })
    .then((answer) => (answer.ok ? answer.text() : Promise.reject(new Error(String(answer.status)))))
    .then((text) => { if (element.dataset.src === src) { element.textContent = text; happens("load"); } })
    .catch(() => happens("error"));
}

export class Grid {
  /**
   * element: the container. changed(selection, what): after every change. enter(): when the enter key is pressed.
   * word: what a picked example is called ("selected", "to be removed"). mark: what it shows.
   */
  constructor(element, { changed = () => {}, enter = null, word = "selected", mark = "✓", label = noun[0].toUpperCase() + noun.slice(1) } = {}) {
    Object.assign(this, { element, changed, enter, word, mark, label });
    this.cells = [];
    this.undoable = [];
    element.addEventListener("click", (event) => {
      const cell = event.target.closest(".cell");
      if (cell && this.cells.includes(cell)) this.toggle(this.cells.indexOf(cell));
    });
    element.addEventListener("keydown", (event) => this.key(event));
    element.addEventListener("focusin", (event) => {
      const at = this.cells.indexOf(event.target);
      if (at >= 0) this.rove(at);
    });
  }

  /** Show examples ({id, src}), of which `picked` (a list of ids) are already chosen. */
  show(images, picked = []) {
    const chosen = new Set(picked);
    this.images = images;
    this.undoable = [];
    this.cells = images.map((image, at) => this.cell(image, at, images.length, chosen.has(image.id)));
    this.element.replaceChildren(...this.cells);
    if (this.cells.length) this.rove(0);
    this.changed(this.selection, null);
  }

  cell(image, at, total, picked) {
    const cell = document.createElement("button");
    cell.type = "button";
    cell.className = "cell";
    cell.tabIndex = -1;
    cell.setAttribute("role", "checkbox");
    cell.setAttribute("aria-checked", String(picked));
    cell.setAttribute("aria-label", `${this.label} ${at + 1} of ${total}${image.note ? `, ${image.note}` : ""}`);
    const picture = newExample();
    picture.alt = "";
    if (noun === "text") picture.addEventListener("load", () => cell.setAttribute("aria-label", `${this.label} ${at + 1} of ${total}: ${picture.textContent}`));
    picture.decoding = "async";
    picture.draggable = false;
    picture.addEventListener("error", () => this.broken(cell, picture, image), { once: true });
    showExample(picture, image.src);
    const mark = document.createElement("span");
    mark.className = "mark";
    mark.setAttribute("aria-hidden", "true");
    mark.textContent = this.mark;
    cell.append(picture, mark);
    return cell;
  }

  broken(cell, picture, image) {
    const note = Object.assign(document.createElement("span"), { className: "broken", textContent: "not loaded yet" });
    cell.append(note);
    const again = () => {
      picture.addEventListener("load", () => note.remove(), { once: true });
      picture.addEventListener("error", () => setTimeout(again, 4000), { once: true });
      showExample(picture, `${image.src}${image.src.includes("?") ? "&" : "?"}again=${Date.now()}`);
    };
    setTimeout(again, 1500);
  }

  get selection() { return this.images.filter((_, at) => this.picked(at)).map((image) => image.id); }
  picked(at) { return this.cells[at].getAttribute("aria-checked") === "true"; }

  toggle(at, remember = true) {
    const now = !this.picked(at);
    this.cells[at].setAttribute("aria-checked", String(now));
    if (remember) this.undoable.push([at]);
    announce(`${this.label} ${at + 1} ${now ? this.word : `not ${this.word}`}. ${this.selection.length} ${this.word}.`);
    this.changed(this.selection, { id: this.images[at].id, picked: now });
  }

  undo() {
    const last = this.undoable.pop();
    if (!last) { announce("Nothing to undo."); return; }
    for (const at of last) this.toggle(at, false);
    this.focus(last[0]);
  }

  clear() {
    const picked = this.cells.map((_, at) => at).filter((at) => this.picked(at));
    for (const at of picked) this.toggle(at, false);
    if (picked.length) this.undoable.push(picked);
  }

  focus(at) {
    const cell = this.cells[Math.max(0, Math.min(at, this.cells.length - 1))];
    cell?.focus();
    cell?.scrollIntoView({ block: "nearest" });
  }

  rove(at) {
    this.cells.forEach((cell, other) => { cell.tabIndex = other === at ? 0 : -1; });
    this.at = at;
  }

  // As many as share the first row's height on the screen: the style decides, the keys follow.
  get columns() {
    const top = this.cells[0]?.offsetTop;
    const next = this.cells.findIndex((cell) => cell.offsetTop !== top);
    return next < 0 ? this.cells.length : next;
  }

  key(event) {
    const at = this.cells.indexOf(event.target);
    if (at < 0 || !plainKey(event)) return;
    const last = this.cells.length - 1, columns = this.columns;
    const row = Math.floor(at / columns) * columns;
    const steps = {
      ArrowRight: at + 1, ArrowLeft: at - 1, Home: row, End: Math.min(row + columns - 1, last),
      ArrowDown: at + columns <= last ? at + columns : at, ArrowUp: at - columns >= 0 ? at - columns : at,
    };
    if (event.key in steps) this.focus(steps[event.key]);
    else if (event.key === " ") { if (!event.repeat) this.toggle(at); }
    else if (event.key === "Enter" && this.enter) { if (!event.repeat) this.enter(); }
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/** The example under the focus, enlarged, by the key Z. */
export function closerLook(grid) {
  const box = document.createElement("dialog");
  box.className = "look";
  box.setAttribute("aria-label", "Closer look");
  const picture = newExample();
  picture.alt = "The image, enlarged";
  box.append(picture);
  document.body.append(box);
  box.addEventListener("click", () => box.close());
  box.addEventListener("close", () => grid.focus(grid.at ?? 0));
  return () => {
    if (box.open) { box.close(); return; }
    const image = grid.images?.[grid.at ?? 0];
    if (!image) return;
    showExample(picture, image.src);
    box.showModal();
  };
}
