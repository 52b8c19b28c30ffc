// The stream of decisions: what came, what waits to be shown, and what is lost.

import { computed, signal } from "@preact/signals";
import type { Gap, Row } from "./cluster";

/** As many decisions as the page keeps. */
export const most = 5000;

export type Phase = "connecting" | "past" | "live" | "lost" | "refused";

export const phase = signal<Phase>("connecting");
export const shown = signal<Row[]>([]);
/** waiting have come since, and are shown when somebody asks for them: nothing moves while one reads. */
export const waiting = signal<Row[]>([]);
/** dropped counts decisions that came and are kept no longer. */
export const dropped = signal(0);
export const lost = signal<Record<string, number>>({});
export const notices = signal<Record<string, string>>({});
export const replicas = signal(0);
export const refusal = signal<Gap | null>(null);
/** problem is why there is no connection, if the server says it. */
export const problem = signal("");
export const paused = signal(false);
export const top = signal(true);
export const reading = signal(false);
export const held = computed(() => paused.value || !top.value || reading.value);

export const lostInAll = computed(() => Object.values(lost.value).reduce((sum, n) => sum + n, 0));

let source: EventSource | null = null;
let query = "";
let batch: Row[] = [];
let timer = 0;
let retry = 0;
let known = new Set<string>();

export const keyOf = (r: Row): string => `${r.replica} ${r.sequence} ${r.time} ${r.candidate?.name ?? ""}`;

function forget(): void {
  shown.value = [];
  waiting.value = [];
  dropped.value = 0;
  lost.value = {};
  notices.value = {};
  refusal.value = null;
  known = new Set();
  batch = [];
}

export function clear(): void {
  const keep = known;
  forget();
  // What was cleared does not come back with a new connection.
  known = keep;
}

function flush(): void {
  timer = 0;
  // The last of a batch is the newest, and those are above.
  const fresh = batch.reverse();
  batch = [];
  const first = phase.value === "past" && shown.value.length === 0;
  if (held.value && !first) {
    keep(waiting, [...fresh, ...waiting.value]);
  } else {
    keep(shown, [...fresh, ...waiting.value, ...shown.value]);
    waiting.value = [];
  }
}

function keep(into: { value: Row[] }, rows: Row[]): void {
  into.value = rows.slice(0, most);
  if (rows.length > most) {
    dropped.value += rows.length - most;
  }
  // A connection that is made again brings the last ones once more, and none that are older.
  if (known.size > 4 * most) {
    known = new Set([...shown.value, ...waiting.value].map(keyOf));
  }
}

export const released = signal(0);

/** release shows what waits, from the top. */
export function release(): void {
  released.value++;
  keep(shown, [...waiting.value, ...shown.value]);
  waiting.value = [];
}

function data<T>(e: Event): T {
  return JSON.parse((e as MessageEvent<string>).data) as T;
}

/** follow connects with a query. What is there stays if that has not changed. */
export function follow(next: string): void {
  if (next !== query) {
    forget();
    query = next;
  }
  leave();
  phase.value = "connecting";
  const own = new EventSource("/api/v1/live/decisions?" + next);
  source = own;
  own.onopen = () => {
    phase.value = "past";
    problem.value = "";
  };
  own.addEventListener("decision", (e) => {
    const row = data<Row>(e);
    const key = keyOf(row);
    if (!known.has(key)) {
      known.add(key);
      batch.push(row);
      timer ||= window.setTimeout(flush, 100);
    }
  });
  own.addEventListener("current", (e) => {
    replicas.value = data<{ replicas: number }>(e).replicas;
    clearTimeout(timer);
    flush();
    phase.value = "live";
  });
  own.addEventListener("lost", (e) => {
    const { replica, lost: n } = data<{ replica: string; lost: number }>(e);
    lost.value = { ...lost.value, [replica]: (lost.value[replica] ?? 0) + n };
  });
  own.addEventListener("notice", (e) => {
    const { replica, text, connected } = data<{ replica: string; text: string; connected?: boolean }>(e);
    const { [replica]: _, ...others } = notices.value;
    // What is well again needs no more words.
    notices.value = connected ? others : { ...others, [replica]: text };
  });
  own.addEventListener("gap", (e) => {
    refusal.value = data<Gap>(e);
    leave();
    phase.value = "refused";
  });
  own.addEventListener("failed", (e) => {
    refusal.value = { what: "decisions", text: data<{ error: string }>(e).error, run: "" };
    leave();
    phase.value = "refused";
  });
  own.onerror = () => {
    phase.value = "lost";
    // A refused request is not tried again by the browser.
    if (own.readyState === EventSource.CLOSED && own === source) {
      void ask(own.url);
      clearTimeout(retry);
      retry = window.setTimeout(() => own === source && follow(query), 2000);
    }
  };
}

/** ask asks again for the answer that an EventSource does not show. */
async function ask(url: string): Promise<void> {
  const abort = new AbortController();
  try {
    const response = await fetch(url, { signal: abort.signal });
    if (!response.ok) {
      problem.value = ((await response.json()) as { error?: string }).error ?? "";
    }
  } catch {
    problem.value = "";
  }
  abort.abort();
}

/** leave ends the connection: nobody looks. */
export function leave(): void {
  clearTimeout(retry);
  source?.close();
  source = null;
}
