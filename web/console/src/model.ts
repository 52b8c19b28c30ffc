// What the page knows: texts that are written, and what the server says about them.

import { computed, effect, signal } from "@preact/signals";
import { Failure, get, latest, onLost, superseded } from "./api";
import type { Coverage, Decision, Info, State, Tests } from "./api";

export const empty: State = {
  policies: "",
  object: "",
  oldObject: "",
  facts: "",
  user: { name: "", groups: [] },
  operation: "",
  subresource: "",
  namespace: "",
  authorization: "",
};

export const policies = signal("");
export const object = signal("");
export const oldObject = signal("");
export const facts = signal("");
export const authorization = signal("");
export const cases = signal("");
export const user = signal("");
export const groups = signal("");
export const operation = signal("");
export const subresource = signal("");
export const namespace = signal("");
/** The example or file that was opened last. */
export const opened = signal<{ example?: string; file?: string; title: string } | null>(null);

/** The file of the folder that the cases are from; empty for others. */
export const casesFile = signal("");
/** What the server called the contents of files that were read or written here, by path. */
export const versions = new Map<string, string>();

interface Kept {
  state: Partial<State>;
  cases: string;
  casesFile: string;
  opened: { example?: string; file?: string; title: string } | null;
}

/** What was on the page before something was opened, which can be undone. */
export const before = signal<Kept | null>(null);

function now(): Kept {
  return { state: state.value, cases: cases.value, casesFile: casesFile.value, opened: opened.value };
}

/** remember is called before texts are replaced. */
export function remember(): void {
  const texts = [policies, object, oldObject, facts, authorization, cases];
  before.value = texts.some((t) => t.value.trim() !== "") ? now() : null;
}

function bring(kept: Kept): void {
  load(kept.state);
  cases.value = kept.cases ?? "";
  casesFile.value = kept.casesFile ?? "";
  opened.value = kept.opened ?? null;
}

export function undo(): void {
  const kept = before.value;
  before.value = null;
  if (kept !== null) {
    bring(kept);
  }
}

// What the page has no place for, as it was opened: a user's extra values, a name.
const others = signal<Record<string, unknown>>({});
const otherUser = signal<Record<string, unknown>>({});

export const state = computed<State>(() => ({
  ...others.value,
  policies: policies.value,
  object: object.value,
  oldObject: oldObject.value,
  facts: facts.value,
  user: { ...otherUser.value, name: user.value.trim(), groups: groups.value.split(/[\n,]/).map((g) => g.trim()).filter((g) => g !== "") },
  operation: operation.value,
  subresource: subresource.value.trim(),
  namespace: namespace.value.trim(),
  authorization: authorization.value,
}));

export function load(s: Partial<State>): void {
  const all = { ...empty, ...s };
  others.value = Object.fromEntries(Object.entries(s).filter(([key]) => !(key in empty)));
  otherUser.value = { ...(s.user ?? {}) };
  policies.value = all.policies;
  object.value = all.object;
  oldObject.value = all.oldObject;
  facts.value = all.facts;
  user.value = all.user?.name ?? "";
  groups.value = (all.user?.groups ?? []).join("\n");
  operation.value = all.operation;
  subresource.value = all.subresource;
  namespace.value = all.namespace;
  authorization.value = all.authorization;
}

export const info = signal<Info | null>(null);
export const decision = signal<Decision | null>(null);
export const failure = signal("");
export const deciding = signal(false);
export const tests = signal<Tests | null>(null);
export const testFailure = signal("");
export const testing = signal(false);
export const coverage = signal<Coverage[]>([]);
export const blank = computed(() => policies.value.trim() === "" && object.value.trim() === "" && authorization.value.trim() === "");

export type Pane = "policies" | "request" | "result";
export type ResultTab = "decision" | "object" | "cases" | "text";
export type RequestTab = "object" | "old" | "user" | "facts" | "authorization" | "cases";
export const pane = signal<Pane>("policies");
export const resultTab = signal<ResultTab>("decision");
export const requestTab = signal<RequestTab>("object");

/** starting while the page knows nothing, expired when another run of the server answers. */
export const connection = signal<"starting" | "ok" | "lost" | "expired">("starting");

const decide = latest<Decision>("decide");

async function decideNow(s: State): Promise<void> {
  deciding.value = true;
  try {
    decision.value = await decide(s);
    failure.value = "";
    deciding.value = false;
  } catch (error) {
    if (superseded(error)) {
      return;
    }
    if (error instanceof Failure && error.status === 429) {
      setTimeout(() => state.peek() === s && void decideNow(s), 500);
      return;
    }
    failure.value = said(error);
    deciding.value = false;
  }
}

export function said(error: unknown): string {
  if (error instanceof Failure && error.status === 0) {
    return "the server does not answer";
  }
  return error instanceof Error ? error.message : String(error);
}

const test = latest<Tests>("test");

export async function runTests(): Promise<void> {
  testing.value = true;
  try {
    const body: Record<string, unknown> = { policies: policies.value };
    if (opened.value?.file) {
      body.file = opened.value.file;
    }
    if (cases.value.trim() !== "") {
      body.cases = cases.value;
      body.casesFile = casesFile.value;
    } else if (opened.value?.example) {
      body.example = opened.value.example;
    } else if (opened.value === null && policies.value.trim() === "") {
      delete body.policies;
    }
    const t = await test(body);
    tests.value = t;
    testFailure.value = "";
    coverage.value = (t.coverage ?? []).filter((c) => !c.file || c.file === opened.value?.file);
    testing.value = false;
  } catch (error) {
    if (superseded(error)) {
      return;
    }
    testFailure.value = said(error);
    tests.value = null;
    coverage.value = [];
    testing.value = false;
  }
}

let again = 0;

/** watch decides whenever a text has changed, and runs the cases while they are shown. */
export function watch(): void {
  let timer = 0;
  let testTimer = 0;
  effect(() => {
    const s = state.value;
    clearTimeout(timer);
    if (connection.value !== "ok") {
      return;
    }
    if (blank.value) {
      decision.value = null;
      failure.value = "";
      deciding.value = false;
      return;
    }
    timer = window.setTimeout(() => void decideNow(s), 150);
  });
  effect(() => {
    void [policies.value, cases.value];
    clearTimeout(testTimer);
    if (resultTab.value === "cases" && connection.value === "ok") {
      testTimer = window.setTimeout(() => void runTests(), 400);
    }
  });
  keep();
  onLost(() => {
    clearTimeout(again);
    void ping();
  });
}

// A page that is loaded again has what it had: this tab's alone.
function keep(): void {
  effect(() => {
    const kept = JSON.stringify(now());
    try {
      sessionStorage.setItem("usher-console", kept);
    } catch {
      // Texts that are too long for it are lost with the page.
    }
  });
}

function restore(): boolean {
  try {
    const kept = JSON.parse(sessionStorage.getItem("usher-console") ?? "null") as Kept | null;
    if (kept === null) {
      return false;
    }
    bring(kept);
    return true;
  } catch {
    return false;
  }
}

export async function start(): Promise<void> {
  const restored = restore();
  watch();
  await ping();
  if (!restored || info.value?.opened) {
    await get<State>("opened").then(load, () => {});
  }
  const files = (info.value?.files ?? []).filter((f) => f.kind === "policies");
  if (!restored && blank.value && files.length === 1) {
    await openFile(files[0]!.path).catch(() => {});
  }
}

/** openFile puts a file of the folder where it belongs, by what is in it. */
export async function openFile(path: string): Promise<void> {
  const file = await get<{ text: string; kind: string; version?: string }>("file?path=" + encodeURIComponent(path));
  remember();
  versions.set(path, file.version ?? "");
  if (file.kind === "cases") {
    cases.value = file.text;
    casesFile.value = path;
    requestTab.value = "cases";
    return;
  }
  if (file.kind === "objects") {
    const documents = file.text.split(/^---.*$/m).filter((d) => /^[^#\s]/m.test(d));
    const one = documents.length === 1 && !/^kind:\s*["']?(Namespace|List)\b/m.test(file.text);
    (one ? object : facts).value = file.text;
    requestTab.value = one ? "object" : "facts";
    return;
  }
  opened.value = { file: path, title: path };
  policies.value = file.text;
}

/** refresh reads again which files and examples there are. */
export async function refresh(): Promise<void> {
  info.value = await get<Info>("info");
}

async function ping(): Promise<void> {
  clearTimeout(again);
  try {
    if (info.value === null) {
      await refresh();
    } else {
      await answer();
    }
    connection.value = "ok";
  } catch (error) {
    connection.value = error instanceof Failure && (error.status === 401 || error.status === 403) ? "expired" : "lost";
  }
  again = window.setTimeout(() => void ping(), 1000);
}

// An error is an answer, except that the cookie is of another run.
async function answer(): Promise<void> {
  try {
    const response = await fetch("/api/v1/ping", { cache: "no-store", signal: AbortSignal.timeout(900) });
    if (response.status === 401 || response.status === 403) {
      throw new Failure(response.status, "");
    }
  } catch (error) {
    throw error instanceof Failure ? error : new Failure(0, String(error));
  }
}
