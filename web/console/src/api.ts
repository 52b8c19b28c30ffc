// The API below /api/v1, described in its openapi.json.

export interface State {
  policies: string;
  object: string;
  oldObject: string;
  facts: string;
  user: { name: string; groups: string[] };
  operation: string;
  subresource: string;
  namespace: string;
  authorization: string;
}

export interface Finding {
  policy: string;
  rule?: string;
  action?: string;
  message: string;
  field?: string;
  line?: number;
  excused?: string | boolean;
}

export interface Step {
  policy: string;
  rule?: string;
  field?: string;
  outcome: string;
  reason?: string;
  values?: { expression: string; value?: unknown; error?: string; depth?: number }[] | null;
  duration?: string | number;
  cost?: number;
  budget?: number;
  matched?: boolean;
  line?: number;
}

export interface Problem {
  policy?: string;
  message: string;
  line?: number;
  column?: number;
  severity?: string;
}

export interface Decision {
  verdict: string;
  message?: string;
  warnings?: string[] | null;
  diff?: string;
  object?: string;
  findings?: Finding[] | null;
  trace?: Step[] | null;
  problems?: Problem[] | null;
  text?: string;
  took?: string;
}

export interface Example {
  name: string;
  title: string;
  pack: string;
  category?: string;
  description?: string;
}

export interface FolderFile {
  path: string;
  kind?: string;
}

export interface Info {
  version: string;
  folder?: string;
  writable?: boolean;
  files?: FolderFile[] | null;
  examples?: Example[] | null;
  opened?: boolean;
}

export interface Position {
  line: number;
  character: number;
}

export interface Edit {
  start: Position;
  end: Position;
  text: string;
}

export interface Diagnostic {
  start: Position;
  end: Position;
  severity: "error" | "warning" | "info";
  message: string;
  fixes?: { title: string; edits: Edit[] }[] | null;
}

export interface Item {
  label: string;
  detail?: string;
  documentation?: string;
  insert?: string;
  start: Position;
  end: Position;
}

export interface Tests {
  suites?: { file: string; cases?: { name: string; passed: boolean; message?: string }[] | null }[] | null;
  coverage?: Coverage[] | null;
}

export interface Coverage {
  policy: string;
  file?: string;
  line: number;
  hits: number;
}

export interface Match {
  policy: string;
  rule?: string;
  /** text is that of the rule, policies all of the file, in which line is. */
  text?: string;
  policies?: string;
  file?: string;
  line?: number;
  explain?: string;
  exempt?: string;
}

export interface Imported {
  engine: string;
  policies: string;
  report?: string;
}

/** Failure is an answer that is an error, or no answer: status is 0 then. */
export class Failure extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

// The server cancels the older request of a page by it.
const page = crypto.randomUUID();

const lost = new Set<() => void>();

/** onLost calls f whenever a request gets no answer. */
export function onLost(f: () => void): void {
  lost.add(f);
}

async function send<T>(path: string, init: RequestInit): Promise<T> {
  let response: Response;
  try {
    response = await fetch("/api/v1/" + path, { credentials: "same-origin", cache: "no-store", ...init });
  } catch (error) {
    if (!init.signal?.aborted) {
      lost.forEach((f) => f());
    }
    throw new Failure(0, error instanceof Error ? error.message : String(error));
  }
  const text = await response.text();
  let body: unknown = {};
  try {
    body = text === "" ? {} : JSON.parse(text);
  } catch {
    body = { error: text };
  }
  if (!response.ok) {
    const said = (body as { error?: unknown }).error;
    throw new Failure(response.status, typeof said === "string" && said !== "" ? said : `the server answered ${response.status}`);
  }
  return body as T;
}

export function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return send<T>(path, { signal: signal ?? null });
}

/** post sends a body. By is who asks: the server cancels the older request to a path of the same one. */
export function post<T>(path: string, body: unknown, signal?: AbortSignal, by = ""): Promise<T> {
  return send<T>(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Usher-Page": page + by },
    body: JSON.stringify(body),
    signal: signal ?? null,
  });
}

/** latest returns a function like post whose next call aborts the one before. */
export function latest<T>(path: string): (body: unknown) => Promise<T> {
  let running: AbortController | undefined;
  return (body) => {
    running?.abort();
    running = new AbortController();
    return post<T>(path, body, running.signal);
  };
}

/** superseded says whether an error is about a request that a newer one made useless. */
export function superseded(error: unknown): boolean {
  return error instanceof Failure && (error.status === 409 || error.status === 0);
}
