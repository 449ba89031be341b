// Requests to the service, with a key where it asks for one.

import { byId } from "./element.js";

const KEPT = "livetree-key";

/** An answer that is not what was asked for; `status` is 0 where nobody answered. */
export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

let asking = null;

/** Fetch; where the service wants a key, ask for it and try again. */
export async function request(path, options = {}) {
  for (;;) {
    const key = sessionStorage.getItem(KEPT);
    const headers = { ...options.headers, ...(key ? { authorization: `Bearer ${key}` } : {}) };
    let response;
    try {
      // Beside the page, wherever a proxy has put it.
      response = await fetch(`.${path}`, { cache: "no-store", ...options, headers });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Problem(0, "the service does not answer");
    }
    if (response.ok || response.status === 304) return response;
    const detail = await detailOf(response);
    if (response.status !== 401) throw new Problem(response.status, detail);
    // Another request may have been given a better key meanwhile.
    if (key === sessionStorage.getItem(KEPT)) await askForKey(key ? detail : "");
  }
}

export async function getJson(path, options) {
  return (await request(path, options)).json();
}

export async function postJson(path, body) {
  const headers = { "content-type": "application/json" };
  return getJson(path, { method: "POST", headers, body: JSON.stringify(body) });
}

async function detailOf(response) {
  try {
    return (await response.json()).detail ?? response.statusText;
  } catch {
    return response.statusText;
  }
}

/** Ask once, however many requests wait for the answer. */
export function askForKey(reason = "") {
  asking ??= new Promise((resolve) => {
    const dialog = byId("key-dialog");
    if (reason) byId("key-reason").textContent = reason;
    byId("key").value = "";
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    byId("key-form").addEventListener(
      "submit",
      () => {
        sessionStorage.setItem(KEPT, byId("key").value.trim());
        byId("key-button").hidden = false;
        asking = null;
        resolve();
      },
      { once: true },
    );
    dialog.showModal();
  });
  return asking;
}

export const hasKey = () => sessionStorage.getItem(KEPT) !== null;

let routes = null;

/** Whether the service has a route; one that does not exist is not asked for. */
export async function offers(route) {
  routes ??= getJson("/", { headers: { accept: "application/json" } }).then((index) => index.routes);
  return route in (await routes);
}
