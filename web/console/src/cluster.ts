// What the server says about a cluster: the part of the API below live/.

import { effect, signal } from "@preact/signals";
import { Failure, get, post } from "./api";
import type { State } from "./api";
import { connection, said } from "./model";
import { param } from "./route";

export interface Ref {
  kind: string;
  namespace?: string;
  name: string;
}

/** What this user cannot see, and the line with which they or an administrator can. */
export interface Gap {
  what: string;
  text: string;
  run: string;
}

export interface Command {
  title: string;
  run: string;
}

export interface Cluster {
  enabled: boolean;
  namespace: string;
  cluster: string;
  user: string;
  replicas: { name: string }[];
  missing: Gap[];
}

export interface PolicyRow {
  ref: Ref;
  group: string;
  action: string;
  kinds: string;
  severity: string;
  category: string;
  title: string;
  state: string;
  why: string;
  problems: number;
  foreign: boolean;
  created: string;
}

export interface CandidateRow {
  ref: Ref;
  state: string;
  since: string;
  countedAt?: string;
  seen: number;
  newlyDenied: number;
  newlyAllowed: number;
  warned: number;
  changed: number;
  errors: number;
  noOpinion: number;
  skipped: number;
  policies: Ref[];
  replaces: Ref | null;
  remove: boolean;
  problem: string;
}

export interface ExemptionRow {
  ref: Ref;
  policies: { kind: string; name: string; validations?: string[] | null }[];
  reason: string;
  owner: string;
  expires: string;
  expired: boolean;
  suspended: boolean;
  uses: number;
  lastUsed: string;
  state: string;
  problem: string;
}

export interface Policies {
  policies: PolicyRow[];
  candidates: CandidateRow[];
  exemptions: ExemptionRow[];
  missing: Gap[];
}

export interface Policy {
  policy: PolicyRow;
  source: string;
  status: string;
  problems: { message: string; line: number; column: number; severity: string; field: string }[];
  conditions: { type: string; status: string; reason: string; message: string; since: string }[];
  replicas: { name: string; renewed: string; agrees: boolean; failing: string; failures: number }[];
  selects: string[];
  reads: { as: string; what: string; right: string }[];
  description: string;
  links: string[];
  exemptions: ExemptionRow[];
  candidates: CandidateRow[];
  commands: Command[];
  missing: Gap[];
}

export interface Violation {
  object: Ref & { apiVersion: string };
  policy: Ref;
  rule: string;
  validation?: string;
  status: string;
  message?: string;
  field?: string;
  category?: string;
  severity?: string;
  actions?: string[];
  exemption?: Ref & { reason?: string };
}

export interface Summary {
  pass: number;
  fail: number;
  warn: number;
  error: number;
  skip: number;
}

export interface KindStatus {
  group?: string;
  version: string;
  resource: string;
  kind?: string;
  objects: number;
  backlog?: number;
  complete: boolean;
  error?: string;
}

export interface Violations {
  items: Violation[];
  summary: Summary | null;
  continue: string;
  restart: boolean;
  kinds: KindStatus[];
  replica: string;
  missing: Gap[];
}

export interface Row {
  replica: string;
  sequence: number;
  time: string;
  verdict: string;
  code?: number;
  tookSeconds: number;
  changed?: boolean;
  warned?: boolean;
  failed?: boolean;
  uid?: string;
  phase: string;
  operation: string;
  apiVersion?: string;
  kind?: string;
  resource?: string;
  subresource?: string;
  namespace?: string;
  name?: string;
  path?: string;
  user: string;
  dryRun?: boolean;
  rules?: { policy: Ref; rule: string; outcome: string; ignored?: boolean; validations?: string[]; exemptions?: string[] }[];
  omitted?: number;
  candidate?: Ref;
  differences?: string[];
  explain?: string;
  exempt?: string;
}

export interface Opened {
  state: State;
  lacks: string[];
  commands: Command[];
  missing: Gap[];
}

/** The cluster of the console; null until the server has said. */
export const cluster = signal<Cluster | null>(null);
export const clusterError = signal("");

/** The namespace that is looked at; empty for all. */
export function namespaceOf(): string {
  const chosen = param("namespace");
  return chosen === "*" ? "" : chosen || cluster.value?.namespace || "";
}

/** chosenAs is the parameter that selects a namespace. */
export function chosenAs(namespace: string): string {
  return namespace === "" && cluster.value?.namespace ? "*" : namespace;
}

let asked = false;

/** meet asks which cluster there is, until there is an answer. */
export function meet(): void {
  effect(() => {
    if ((connection.value === "ok" || connection.value === "starting") && cluster.value === null && !asked) {
      asked = true;
      get<Cluster>("live").then(
        (c) => (cluster.value = c),
        (e: unknown) => {
          asked = false;
          clusterError.value = said(e);
          // Nothing to ask: a server without the pages of a cluster.
          if (e instanceof Failure && e.status === 404) {
            cluster.value = { enabled: false, namespace: "", cluster: "", user: "", replicas: [], missing: [] };
          }
        },
      );
    }
  });
}

export function name(of: Ref): string {
  return `${of.kind} ${of.namespace ? of.namespace + "/" : ""}${of.name}`;
}

/** place is a name without the kind. */
export function place(of: { namespace?: string; name: string }): string {
  return (of.namespace ? of.namespace + "/" : "") + of.name;
}

export function same(a: Ref, b: Ref): boolean {
  return a.kind === b.kind && a.name === b.name && (a.namespace ?? "") === (b.namespace ?? "");
}

/** The one of a list or of the server that the parameters of the address name. */
export const refOf = (): Ref => ({ kind: param("kind"), name: param("name"), ...(param("ns") ? { namespace: param("ns") } : {}) });

/** Loaded is what one request brings; what was there stays until there is more. */
export interface Loaded<T> {
  data: T | null;
  error: string;
  loading: boolean;
}

export const nothing = { data: null, error: "", loading: true };

/** Ask asks for something. It may say what there is so far. */
export type Ask<T> = (signal: AbortSignal, soFar: (data: T) => void) => Promise<T>;

export const policiesOf = (namespace: string): Ask<Policies> => (signal) => post<Policies>("live/policies", { namespace }, signal);
export const policyOf = (ref: Ref): Ask<Policy> => (signal) => post<Policy>("live/policy", { ref }, signal);

export interface All {
  items: Violation[];
  summary: Summary;
  kinds: KindStatus[];
  missing: Gap[];
  /** more says that there are more than this page shows. */
  more: boolean;
  /** reading says that the rest is being read. */
  reading: boolean;
  at: Date;
}

/** As many as an audit lists for a namespace. */
const most = 10_000;

/** violationsOf follows the pages of a list, and begins again when what they are of has changed. */
export const violationsOf =
  (namespace: string): Ask<All> =>
  async (signal, soFar) => {
    for (let tries = 0; tries < 5; tries++) {
      const all: All = { items: [], summary: { pass: 0, fail: 0, warn: 0, error: 0, skip: 0 }, kinds: [], missing: [], more: false, reading: true, at: new Date() };
      let next = "";
      let again = false;
      do {
        const page = await post<Violations>("live/violations", next ? { namespace, continue: next } : { namespace }, signal);
        again = page.restart;
        all.items = all.items.concat(page.items);
        all.missing.push(...page.missing.filter((m) => !all.missing.some((o) => o.what === m.what && o.text === m.text)));
        all.kinds.push(...page.kinds);
        for (const key of Object.keys(all.summary) as (keyof Summary)[]) {
          all.summary[key] += page.summary?.[key] ?? 0;
        }
        next = page.continue;
        // Showing all of each answer would take longer than reading them.
        if (next !== "" && !again && all.items.length === page.items.length) {
          soFar({ ...all });
        }
      } while (next !== "" && !again && all.items.length < most);
      if (!again) {
        all.more = next !== "";
        all.reading = false;
        return all;
      }
    }
    throw new Failure(0, "the results change all the time: try again");
  };

/** firstOf is the first page of the violations of one policy. */
export const firstOf =
  (namespace: string, policy: Ref): Ask<Violations> =>
  (signal) =>
    post<Violations>("live/violations", { namespace, policy }, signal, "-first");

/** lastOf are the last few decisions in which a policy made a difference, the newest first. */
export const lastOf =
  (namespace: string, policy: Ref): Ask<Row[]> =>
  (signal) =>
    new Promise((resolve, reject) => {
      const query = new URLSearchParams({ namespace, policy: `${policy.kind}/${place(policy)}`, last: "5" });
      const source = new EventSource("/api/v1/live/decisions?" + query.toString());
      const rows: Row[] = [];
      const end = (error?: Failure) => {
        source.close();
        if (error) {
          reject(error);
        } else {
          resolve(rows);
        }
      };
      signal.addEventListener("abort", () => end());
      const data = (e: Event) => JSON.parse((e as MessageEvent<string>).data) as { text?: string; error?: string };
      source.addEventListener("decision", (e) => rows.unshift(data(e) as unknown as Row));
      source.addEventListener("current", () => end());
      source.addEventListener("gap", (e) => end(new Failure(403, data(e).text ?? "")));
      source.addEventListener("failed", (e) => end(new Failure(502, data(e).error ?? "")));
      source.onerror = () => end(new Failure(0, ""));
    });

/** live asks for an object with its policies as something that can be decided. */
export function live(of: { object?: Ref & { apiVersion: string }; policies: Ref[]; user?: string; operation?: string; subresource?: string; request?: { uid: string; namespace?: string; replica: string } }, signal: AbortSignal): Promise<Opened> {
  return post<Opened>("live/open", of, signal);
}
