// Light or dark: what the system says, until the button says otherwise; and colours for canvases.

import { byId } from "./element.js";

const KEPT = "livetree-theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = [];
let colours = new Map();

export const isDark = () => (chosen() ?? (system.matches ? "dark" : "light")) === "dark";

function chosen() {
  const kept = localStorage.getItem(KEPT);
  return kept === "dark" || kept === "light" ? kept : null;
}

/** Call this when colours have changed. */
export function onTheme(listener) {
  listeners.push(listener);
}

/** The colour of a variable of the style sheet, as a canvas takes it. */
export function colour(name) {
  if (!colours.has(name)) {
    const probe = document.createElement("span");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    colours.set(name, getComputedStyle(probe).color);
    probe.remove();
  }
  return colours.get(name);
}

function apply() {
  const theme = chosen();
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  byId("theme-button").textContent = isDark() ? "Light" : "Dark";
  colours = new Map();
  for (const listener of listeners) listener();
}

export function startTheme() {
  byId("theme-button").addEventListener("click", () => {
    const wanted = isDark() ? "light" : "dark";
    const same = (wanted === "dark") === system.matches;
    if (same) localStorage.removeItem(KEPT);
    else localStorage.setItem(KEPT, wanted);
    apply();
  });
  system.addEventListener("change", apply);
  apply();
}
