// The token stands behind the "#" of the owner's link: browsers never send that part, so it is in nobody's log.

import { post } from "./talk.js";

async function enter(token) {
  try {
    const { next } = await post("/owner/api/enter", { token });
    location.replace(next);
  } catch (error) {
    document.getElementById("trouble").textContent = error.message;
  }
}

document.getElementById("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  enter(document.getElementById("token").value.trim());
});

function fromAddress() {
  if (location.hash.length < 2) return;
  const token = location.hash.slice(1);
  history.replaceState(null, "", location.pathname);
  enter(token);
}
addEventListener("hashchange", fromAddress);
fromAddress();
