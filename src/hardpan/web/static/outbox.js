// Submissions on their way: kept in the browser until the server has confirmed them, through reloads and lost networks.

import { Offline, Refused, post, storage } from "./talk.js";

const NAME = "outbox";

export class Outbox {
  /** `delivered(item, answer)` hears of every confirmed item, `refused(item, error)` of every refused one. */
  constructor({ delivered, refused, changed = () => {} }) {
    Object.assign(this, { delivered, refused, changed, tries: 0, running: false });
    this.memory = []; // where there is no storage
    addEventListener("online", () => { this.tries = 0; this.flush(); });
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.flush(); });
  }

  // Another tab may have added or delivered items meanwhile, so the list is read anew every time.
  items() { return storage.get(NAME) ?? this.memory; }
  keep(items) { this.memory = items; storage.set(NAME, items); this.changed(items.length); }
  get length() { return this.items().length; }

  add(path, body) {
    this.keep([...this.items(), { path, body }]);
    return this.flush();
  }

  async flush() {
    if (this.running) return;
    this.running = true;
    clearTimeout(this.timer);
    try {
      for (let item; (item = this.items()[0]); ) {
        let answer, error;
        try {
          answer = await post(item.path, item.body);
        } catch (caught) {
          if (!(caught instanceof Refused)) throw caught;
          error = caught;
        }
        this.tries = 0;
        this.keep(this.items().filter((other) => other.body.key !== item.body.key));
        if (error) this.refused(item, error);
        else this.delivered(item, answer);
      }
    } catch (error) {
      if (!(error instanceof Offline)) throw error;
      this.timer = setTimeout(() => { this.running = false; this.flush(); }, Math.min(15000, 500 * 2 ** this.tries++));
    } finally {
      this.running = false;
      this.changed(this.length);
    }
  }
}
