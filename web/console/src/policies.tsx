// The policies of a cluster, their exemptions and their candidates.

import { useMemo } from "preact/hooks";
import { name, namespaceOf, place, policiesOf } from "./cluster";
import type { CandidateRow, ExemptionRow, PolicyRow } from "./cluster";
import { Exemptions, Missing, Namespace, Nothing, PolicyLink, Severity, Updated, Waiting, Wrong, count, day, severities, useAsk } from "./looks";
import { Tabs } from "./parts";
import { filter, go, param } from "./route";
import { Rows } from "./rows";
import type { Column } from "./rows";

type Tab = "policies" | "exemptions" | "candidates";

// The worst first.
const states = ["broken", "failing", "unproven", "pending", "unknown", "suspended", "enforced"];

export function stateSort(state: string): string {
  return { broken: "denied", failing: "denied", unproven: "denied", pending: "warned", suspended: "warned", enforced: "allowed" }[state] ?? "neutral";
}

export function State({ of }: { of: string }) {
  return <span class={"state " + stateSort(of)}>{of}</span>;
}

const columns: Column[] = [
  { name: "state", title: "State", sortable: true },
  { name: "policy", title: "Policy", sortable: true },
  { name: "action", title: "Action", sortable: true },
  { name: "kinds", title: "Selects", sortable: true },
  { name: "severity", title: "Severity", sortable: true },
  { name: "number", title: "Problems", sortable: true },
];

export const spaced = (list: string) => list.replace(/,(?! )/g, ", ");

const rank = (list: string[], value: string) => (list.includes(value) ? list.indexOf(value) : list.length);

const by: Record<string, (a: PolicyRow, b: PolicyRow) => number> = {
  state: (a, b) => rank(states, a.state) - rank(states, b.state),
  policy: (a, b) => a.ref.name.localeCompare(b.ref.name),
  action: (a, b) => a.action.localeCompare(b.action),
  kinds: (a, b) => a.kinds.localeCompare(b.kinds),
  severity: (a, b) => rank(severities, a.severity) - rank(severities, b.severity),
  number: (a, b) => b.problems - a.problems,
};

function found<T>(rows: T[], text: (row: T) => string): T[] {
  const words = param("q").toLowerCase().split(/\s+/).filter((w) => w);
  return words.length === 0 ? rows : rows.filter((r) => words.every((w) => text(r).toLowerCase().includes(w)));
}

function List({ rows, all, missing }: { rows: PolicyRow[]; all: number; missing: boolean }) {
  const sort = { by: param("sort") || "state", down: param("down") === "1" };
  const state = param("state");
  const sorted = useMemo(() => {
    const compare = by[sort.by] ?? by.state!;
    return rows
      .filter((r) => !state || r.state === state)
      .sort((a, b) => (sort.down ? -1 : 1) * compare(a, b) || a.ref.name.localeCompare(b.ref.name) || name(a.ref).localeCompare(name(b.ref)));
  }, [rows, sort.by, sort.down, state]);
  if (sorted.length === 0) {
    return all === 0 ? (
      <Nothing title={missing ? "Policies are not shown" : "No policies"}>
        <p>{missing ? "What is missing is said above." : "There is no policy here."}</p>
      </Nothing>
    ) : (
      <NoMatch />
    );
  }
  return (
    <Rows
      id="policy-rows"
      label="Policies"
      columns={columns}
      rows={sorted}
      keyOf={(r) => name(r.ref)}
      sort={sort}
      onSort={(b) => filter({ sort: b, down: sort.by === b && !sort.down ? "1" : "" })}
      onOpen={(r) => go("policy", { kind: r.ref.kind, ns: r.ref.namespace, name: r.ref.name })}
      cells={(r) => [
        <State of={r.state} />,
        <span class="two" title={r.state === "enforced" ? r.title : r.why || r.title}>
          <PolicyLink of={r.ref} row />
          <span class="about">{r.state === "enforced" ? r.title : r.why || r.title}</span>
        </span>,
        spaced(r.action) || <span class="quiet">–</span>,
        spaced(r.kinds),
        <Severity of={r.severity} />,
        r.problems > 0 ? <span class="state denied">{count(r.problems)}</span> : <span class="quiet">0</span>,
      ]}
    />
  );
}

export function NoMatch() {
  return (
    <Nothing title="Nothing is selected by these filters">
      <p class="actions">
        <button type="button" id="no-filter" onClick={() => filter(Object.fromEntries([...new URLSearchParams(location.hash.split("?")[1])].filter(([k]) => k !== "namespace" && k !== "tab").map(([k]) => [k, ""])))}>
          Show all
        </button>
      </p>
    </Nothing>
  );
}

const differences: [keyof CandidateRow, string][] = [
  ["newlyDenied", "denied+"],
  ["newlyAllowed", "allowed+"],
  ["warned", "warned"],
  ["changed", "changed"],
  ["errors", "errors"],
  ["skipped", "skipped"],
];

export function Candidates({ rows }: { rows: CandidateRow[] }) {
  return (
    <ul class="cards">
      {rows.map((c) => (
        <li key={name(c.ref)} class={"card " + (c.problem ? "denied" : c.newlyDenied + c.errors > 0 ? "warned" : "neutral")}>
          <div class="row">
            <strong>{place(c.ref)}</strong>
            <State of={c.state} />
          </div>
          <p class="meta">
            <span>{c.remove ? "removes" : c.replaces ? "replaces" : "adds"}</span>
            {(c.replaces ? [c.replaces] : c.policies).map((p) => (
              <PolicyLink key={name(p)} of={p} />
            ))}
            {c.since ? <span>since {day(c.since)}</span> : null}
            {c.countedAt ? <span>as of {day(c.countedAt)}</span> : null}
          </p>
          <dl class="numbers">
            <div>
              <dt>seen</dt>
              <dd>{count(c.seen)}</dd>
            </div>
            {differences.map(([field, title]) => (
              <div key={field} class={c[field] ? "" : "zero"}>
                <dt>{title}</dt>
                <dd>{count(Number(c[field]))}</dd>
              </div>
            ))}
          </dl>
          {c.problem ? <p class="failed">{c.problem}</p> : null}
        </li>
      ))}
    </ul>
  );
}

function Others({ tab, exemptions, candidates }: { tab: Tab; exemptions: ExemptionRow[]; candidates: CandidateRow[] }) {
  const rows = tab === "exemptions" ? exemptions : candidates;
  if (rows.length === 0) {
    return param("q") ? (
      <NoMatch />
    ) : (
      <Nothing title={tab === "exemptions" ? "No exemptions" : "No candidates"}>
        <p>{tab === "exemptions" ? "Nothing is exempt from a policy here." : "No policy is tried beside those in force here."}</p>
      </Nothing>
    );
  }
  return <div class="scroll" tabIndex={0} role="region" aria-label={tab === "exemptions" ? "Exemptions" : "Candidates"}>{tab === "exemptions" ? <Exemptions rows={exemptions} /> : <Candidates rows={candidates} />}</div>;
}

export function PoliciesView() {
  const namespace = namespaceOf();
  const { data, error, loading, at, reload } = useAsk("policies " + namespace, policiesOf(namespace));
  const tab = (param("tab") || "policies") as Tab;
  const rows = useMemo(() => found(data?.policies ?? [], (r) => `${name(r.ref)} ${r.title} ${r.action} ${r.kinds} ${r.state} ${r.severity} ${r.category}`), [data, param("q")]);
  const exemptions = found(data?.exemptions ?? [], (x) => `${name(x.ref)} ${x.reason} ${x.owner} ${x.policies.map((p) => p.name).join(" ")}`);
  const candidates = found(data?.candidates ?? [], (c) => `${name(c.ref)} ${c.policies.map(name).join(" ")}`);
  const bad = (data?.policies ?? []).filter((p) => stateSort(p.state) === "denied").length;
  return (
    <section id="policy-list" class="view" aria-labelledby="view-title">
      <div class="toolbar">
        <h2 id="view-title">Policies</h2>
        <Namespace />
        <Search placeholder="name, kind, action …" />
        {tab === "policies" ? (
          <label>
            <span class="hidden">State</span>
            <select value={param("state")} onChange={(e) => filter({ state: e.currentTarget.value })}>
              <option value="">any state</option>
              {states.map((s) => (
                <option key={s} value={s}>
                  {s}
                </option>
              ))}
            </select>
          </label>
        ) : null}
        <Updated at={at} loading={loading} onReload={reload} />
      </div>
      <div class="subbar">
        <Tabs
          label="Policies, exemptions and candidates"
          id="list"
          value={tab}
          onSelect={(t) => filter({ tab: t === "policies" ? "" : t })}
          tabs={[
            { id: "policies" as Tab, title: "Policies", note: data ? count(data.policies.length) : "" },
            { id: "exemptions" as Tab, title: "Exemptions", note: data ? count(data.exemptions.length) : "" },
            { id: "candidates" as Tab, title: "Candidates", note: data ? count(data.candidates.length) : "" },
          ]}
        />
        {bad > 0 ? (
          <p class="aside state denied">
            {count(bad)} {bad === 1 ? "is" : "are"} not in force
          </p>
        ) : null}
      </div>
      {error && data ? <p class="strip failed" role="alert">Not loaded again: {error}</p> : null}
      {data ? <Missing gaps={data.missing} /> : null}
      <div class="fill" role="tabpanel" id="list-panel" aria-labelledby={"list-tab-" + tab} aria-busy={loading}>
        {data ? tab === "policies" ? <List rows={rows} all={data.policies.length} missing={data.missing.some((m) => m.what === "policies")} /> : <Others tab={tab} exemptions={exemptions} candidates={candidates} /> : error ? <Wrong title="The policies cannot be read" error={error} onAgain={reload} /> : <Waiting what="policies" />}
      </div>
    </section>
  );
}

export function Search({ placeholder }: { placeholder: string }) {
  return (
    <label class="search">
      <span class="hidden">Search</span>
      <input type="text" id="search" placeholder={placeholder} spellcheck={false} autocomplete="off" value={param("q")} onInput={(e) => filter({ q: e.currentTarget.value })} />
    </label>
  );
}
