// Follows GET /live; where the stream fails, asks GET /stats once a second and tries again later.
// The stream is read with fetch, since an EventSource cannot send a key.

import { getJson, request } from "./api.js";

const SILENT_MS = 6000; // a stream that says nothing for so long is dead
const POLLS = 10; // before the stream is tried again
const PAUSE_MS = 1000;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Call `onStats` with every message, and `onState` with live, polling or offline. */
export async function follow(onStats, onState) {
  for (;;) {
    try {
      await stream(onStats, onState);
    } catch {
      // Whatever it was: ask instead.
    }
    for (let count = 0; count < POLLS; count += 1) {
      try {
        const stats = await getJson("/stats", { signal: AbortSignal.timeout(SILENT_MS) });
        onState("polling");
        onStats(stats);
      } catch {
        onState("offline");
        count = Math.max(count, POLLS - 3); // back as soon as somebody answers
      }
      await pause(PAUSE_MS);
    }
  }
}

async function stream(onStats, onState) {
  const control = new AbortController();
  let watch;
  const heard = () => {
    clearTimeout(watch);
    watch = setTimeout(() => control.abort(), SILENT_MS);
  };
  const headers = { accept: "text/event-stream" };
  try {
    const response = await request("/live", { headers, signal: control.signal });
    heard();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      const messages = (rest + value).split("\n\n");
      rest = messages.pop();
      for (const message of messages.map(parsed)) {
        if (message.event === "end") return;
        if (message.event !== "stats") continue;
        onState("live");
        onStats(JSON.parse(message.data));
      }
    }
  } finally {
    clearTimeout(watch);
    control.abort();
  }
}

function parsed(text) {
  const fields = text.split("\n").map((line) => /^(\w+): ?(.*)$/.exec(line));
  return Object.fromEntries(fields.filter(Boolean).map(([, name, value]) => [name, value]));
}
