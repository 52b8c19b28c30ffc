// What an audit says about the objects of a cluster: facets, groups, and why.

import { useMemo, useState } from "preact/hooks";
import { name, namespaceOf, place, violationsOf } from "./cluster";
import type { All, Violation } from "./cluster";
import { Detail, useDetail } from "./detail";
import { Explained } from "./explained";
import { Chosen, Facets, choices } from "./facets";
import type { Facet } from "./facets";
import { Line, Missing, Namespace, Nothing, PolicyLink, Severity, Updated, Waiting, Wrong, count, severities, useAsk } from "./looks";
import { Icon, download } from "./parts";
import { NoMatch, Search } from "./policies";
import { csv } from "./export";
import { filter, list, param } from "./route";
import { Rows } from "./rows";
import type { Column } from "./rows";

const statuses = ["error", "fail", "warn", "skip"];
const sorts: Record<string, string> = { error: "denied", fail: "denied", warn: "warned", skip: "neutral", pass: "allowed" };

export const sortOfStatus = (status: string) => sorts[status] ?? "neutral";

const facets: Facet<Violation>[] = [
  { name: "status", title: "Status", of: (v) => v.status, order: statuses },
  { name: "severity", title: "Severity", of: (v) => v.severity || "none", order: [...severities, "none"] },
  { name: "policy", title: "Policy", of: (v) => name(v.policy), show: (value) => value.split(" ").pop()! },
  { name: "in", title: "Namespace", of: (v) => v.object.namespace || "(cluster)" },
  { name: "kind", title: "Kind", of: (v) => v.object.kind },
  { name: "category", title: "Category", of: (v) => v.category || "none" },
];

const groupings: Record<string, (v: Violation) => string> = {
  policy: (v) => name(v.policy),
  message: (v) => v.message ?? "",
  namespace: (v) => v.object.namespace || "(cluster)",
  kind: (v) => v.object.kind,
  object: (v) => `${v.object.kind} ${place(v.object)}`,
};

const rank = (all: string[], value: string) => (all.includes(value) ? all.indexOf(value) : all.length);

const by: Record<string, (a: Violation, b: Violation) => number> = {
  status: (a, b) => rank(statuses, a.status) - rank(statuses, b.status) || rank(severities, a.severity ?? "") - rank(severities, b.severity ?? ""),
  severity: (a, b) => rank(severities, a.severity ?? "") - rank(severities, b.severity ?? ""),
  object: (a, b) => compare(place(a.object), place(b.object)),
  message: (a, b) => compare(a.message ?? "", b.message ?? ""),
  policy: (a, b) => compare(a.policy.name, b.policy.name),
};

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

const columns: Column[] = [
  { name: "status", title: "Status", sortable: true },
  { name: "severity", title: "Severity", sortable: true },
  { name: "object", title: "Object", sortable: true },
  { name: "message", title: "Message", sortable: true },
  { name: "policy", title: "Policy", sortable: true },
];

type Group = { group: string; of: Violation[]; open: boolean };
type Row = Violation | Group;

const isGroup = (r: Row): r is Group => "group" in r;

/** keyOf is the same for a violation whenever it is loaded. */
function keyOf(v: Violation): string {
  return [v.object.apiVersion, v.object.kind, place(v.object), name(v.policy), v.rule, v.validation, v.field, v.message].join("\n");
}

const rowKey = (r: Row) => (isGroup(r) ? "group\n" + r.group : keyOf(r));

function wordsOf(v: Violation): string {
  return `${v.object.kind} ${place(v.object)} ${v.message ?? ""} ${name(v.policy)} ${v.validation ?? ""} ${v.field ?? ""}`.toLowerCase();
}

function grouped(items: Violation[], grouping: string, turned: Set<string>): Row[] {
  const of = groupings[grouping];
  if (!of) {
    return items;
  }
  const groups = new Map<string, Violation[]>();
  for (const v of items) {
    const key = of(v);
    const group = groups.get(key);
    if (group) {
      group.push(v);
    } else {
      groups.set(key, [v]);
    }
  }
  // A few are open at first, and of many only the groups are.
  const open = items.length <= 30;
  return [...groups]
    .sort(([, a], [, b]) => b.length - a.length)
    .flatMap(([group, of]): Row[] => {
      const isOpen = open !== turned.has(group);
      return [{ group, of, open: isOpen }, ...(isOpen ? of : [])];
    });
}

function Head({ r }: { r: Group }) {
  const worst = r.of.reduce((w, v) => (rank(statuses, v.status) < rank(statuses, w) ? v.status : w), "skip");
  return (
    <span class="group-head">
      <span class={"turn" + (r.open ? " open" : "")} aria-hidden="true">
        ▸
      </span>
      <span class="title">{r.group || "(no message)"}</span>
      <span class={"state " + sortOfStatus(worst)}>{count(r.of.length)}</span>
      <span class="hidden">{r.open ? "open" : "closed"}</span>
    </span>
  );
}

function Violated({ v }: { v: Violation }) {
  const of = v.object;
  return (
    <>
      <div class="facts">
        <span class={"state " + sortOfStatus(v.status)}>{v.status}</span>
        {v.severity ? <Severity of={v.severity} /> : null}
        {(v.actions ?? []).map((a) => (
          <span key={a} class="tag">
            {a}
          </span>
        ))}
      </div>
      <p class="said lead">{v.message}</p>
      <dl class="pairs">
        <dt>Object</dt>
        <dd>
          {of.apiVersion} {of.kind} {of.name ? place(of) : ""}
        </dd>
        {v.field ? (
          <>
            <dt>Field</dt>
            <dd>
              <code>{v.field}</code>
            </dd>
          </>
        ) : null}
        <dt>Policy</dt>
        <dd>
          <PolicyLink of={v.policy} />
        </dd>
        <dt>Rule</dt>
        <dd>
          <code>{v.rule}</code> {v.validation ?? ""}
        </dd>
        {v.exemption ? (
          <>
            <dt>Exempt by</dt>
            <dd>
              {name(v.exemption)}
              {v.exemption.reason ? `: ${v.exemption.reason}` : ""}
            </dd>
          </>
        ) : null}
      </dl>
      {of.name ? <Explained subject={{ object: { apiVersion: of.apiVersion, kind: of.kind, ...(of.namespace ? { namespace: of.namespace } : {}), name: of.name }, policies: [v.policy] }} title={`${of.kind} ${place(of)}`} /> : null}
    </>
  );
}

/** asked is the line that shows the same without the page. */
function asked(namespace: string, policies: string[]): string {
  const one = policies.length === 1 ? policies[0]!.split(" ").pop()! : "";
  return ["usher audit", namespace ? `-n ${quotedWord(namespace)}` : "", one ? `--policy ${quotedWord(one)}` : ""].filter((s) => s).join(" ");
}

const quotedWord = (text: string) => (/^[\w./:-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

function Export({ items, reading }: { items: Violation[]; reading: boolean }) {
  return (
    <div class="export" role="group" aria-label={`Export of ${items.length} rows`}>
      <button type="button" id="export-csv" disabled={items.length === 0 || reading} onClick={() => download("violations.csv", csv(items), "text/csv")}>
        <Icon name="import" /> CSV
      </button>
      <button type="button" id="export-json" disabled={items.length === 0 || reading} onClick={() => download("violations.json", JSON.stringify(items, null, 2) + "\n", "application/json")}>
        JSON
      </button>
    </div>
  );
}

function Counts({ all, shown }: { all: All; shown: number }) {
  const reading = all.kinds.filter((k) => !k.complete);
  return (
    <p class="counts">
      <span>
        <b>{count(shown)}</b> of {count(all.items.length)}
        {all.more || all.reading ? " read" : ""}
      </span>
      <span class="quiet">{count(all.summary.pass)} pass</span>
      {all.reading ? <span class="quiet">reading more …</span> : null}
      {all.more ? <span class="state warned">there are more: choose a namespace</span> : null}
      {reading.length > 0 ? <span class="state warned" title={reading.map((k) => `${k.resource}${k.error ? ": " + k.error : ""}`).join("\n")}>not complete: {reading.length === 1 ? reading[0]!.resource : `${reading.length} kinds`}</span> : null}
    </p>
  );
}

const noItems: Violation[] = [];

export function ViolationsView() {
  const namespace = namespaceOf();
  const { data, error, loading, at, reload } = useAsk("violations " + namespace, violationsOf(namespace));
  const [turned, setTurned] = useState(new Set<string>());
  const [filters, setFilters] = useState(false);
  const items = data?.items ?? noItems;
  const query = param("q").toLowerCase();
  const sort = { by: param("sort") || "status", down: param("down") === "1" };
  const grouping = param("group");
  const chosen = choices(facets);
  const key = facets.map((f) => param(f.name)).join("\n");
  const searched = useMemo(() => {
    const words = query.split(/\s+/).filter((w) => w);
    return words.length === 0 ? items : items.filter((v) => words.every((w) => wordsOf(v).includes(w)));
  }, [items, query]);
  const selected = useMemo(() => {
    const order = by[sort.by] ?? by.status!;
    return searched
      .filter((v) => facets.every((f) => chosen[f.name]!.size === 0 || chosen[f.name]!.has(f.of(v))))
      .sort((a, b) => (sort.down ? -1 : 1) * order(a, b) || compare(place(a.object), place(b.object)));
  }, [searched, key, sort.by, sort.down]);
  const rows = useMemo(() => grouped(selected, grouping, turned), [selected, grouping, turned]);
  const detail = useDetail(items, keyOf, "violation-rows");
  const fold = (r: Row, open: boolean) => {
    if (isGroup(r) && r.open !== open) {
      const next = new Set(turned);
      if (!next.delete(r.group)) {
        next.add(r.group);
      }
      setTurned(next);
    }
    return isGroup(r);
  };
  return (
    <section id="violations" class="view" aria-labelledby="view-title">
      <div class="toolbar">
        <h2 id="view-title">Violations</h2>
        <Namespace />
        <Search placeholder="object, message, policy …" />
        <label>
          <span class="hidden">Group by</span>
          <select
            id="group"
            value={grouping}
            onChange={(e) => {
              setTurned(new Set());
              filter({ group: e.currentTarget.value });
            }}
          >
            <option value="">no groups</option>
            {Object.keys(groupings).map((g) => (
              <option key={g} value={g}>
                by {g}
              </option>
            ))}
          </select>
        </label>
        <button type="button" class="only-narrow" aria-expanded={filters} aria-controls="facets" onClick={() => setFilters(!filters)}>
          <Icon name="filter" /> Filters
        </button>
        <Updated at={at} loading={loading} onReload={reload} />
      </div>
      {error && data ? <p class="strip failed" role="alert">Not loaded again: {error}</p> : null}
      {data ? <Missing gaps={data.missing} /> : null}
      {data ? (
        <div class={"halves-live" + (items.length === 0 ? " no-facets" : "") + (detail.row ? " with-detail" : "")}>
          {items.length > 0 ? (
            <aside id="facets" class={"facets scroll" + (filters ? " open" : "")} aria-label="Filters">
              <Facets facets={facets} items={searched} />
            </aside>
          ) : null}
          <div class="middle" aria-busy={loading}>
            {items.length > 0 ? (
              <div class="subbar">
                <Counts all={data} shown={selected.length} />
                <Chosen facets={facets} />
                <Export items={selected} reading={data.reading} />
              </div>
            ) : null}
            {items.length === 0 ? (
              <Nothing title={data.missing.some((m) => m.what === "violations") ? "Violations are not shown" : "No violations"}>
                <p>{data.missing.some((m) => m.what === "violations") ? "What is missing is said above." : data.summary.pass > 0 ? `All ${count(data.summary.pass)} results pass.` : "The audit has no results here."}</p>
              </Nothing>
            ) : rows.length === 0 ? (
              <NoMatch />
            ) : (
              <Rows<Row>
                id="violation-rows"
                label="Violations"
                columns={columns}
                rows={rows}
                keyOf={rowKey}
                selected={detail.key}
                sort={sort}
                onSort={(b) => filter({ sort: b, down: sort.by === b && !sort.down ? "1" : "" })}
                onFold={fold}
                onOpen={(r) => (isGroup(r) ? fold(r, !r.open) : detail.open(r))}
                cells={(r) =>
                  isGroup(r)
                    ? [<Head r={r} />]
                    : [
                        <span class={"state " + sortOfStatus(r.status)}>{r.status}</span>,
                        <Severity of={r.severity ?? ""} />,
                        <span title={place(r.object)}>
                          <span class="kind">{r.object.kind}</span> {place(r.object)}
                        </span>,
                        <span title={r.message}>{r.message}</span>,
                        <span title={name(r.policy)}>{place(r.policy)}</span>,
                      ]
                }
              />
            )}
            {items.length > 0 ? (
              <div class="same">
                <Line command={{ title: "", run: asked(namespace, list("policy")) }} />
              </div>
            ) : null}
          </div>
          {detail.row ? (
            <Detail title={`${detail.row.object.kind} ${detail.row.object.name ? place(detail.row.object) : ""}`} onClose={detail.close}>
              <Violated key={detail.key} v={detail.row} />
            </Detail>
          ) : null}
        </div>
      ) : error ? (
        <Wrong title="The violations cannot be read" error={error} onAgain={reload} />
      ) : (
        <Waiting what="violations" />
      )}
    </section>
  );
}
