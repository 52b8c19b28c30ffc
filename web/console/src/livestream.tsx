// The decisions of a cluster while they are made.

import { useEffect, useState } from "preact/hooks";
import { name, namespaceOf, place } from "./cluster";
import type { Ref, Row } from "./cluster";
import { Detail, useDetail } from "./detail";
import { Exempt, Explained } from "./explained";
import { Line, Missing, Namespace, Nothing, PolicyLink, Waiting, clock, count, moment, took } from "./looks";
import { connection } from "./model";
import { Icon } from "./parts";
import { filter, joined, list, param } from "./route";
import { Rows } from "./rows";
import type { Column } from "./rows";
import { clear, dropped, follow, keyOf, leave, lost, lostInAll, notices, paused, phase, problem, reading, refusal, release, released, replicas, shown, top, waiting } from "./stream";
import { target, verdictOf } from "./verdict";

const outcomes = ["denied", "changed", "warned", "failed", "exempted"];

/** account is a user, of whom only the namespace and the name are written out if it is a ServiceAccount. */
function account(user: string) {
  const [, of] = user.match(/^system:serviceaccount:(.+)$/) ?? [];
  return of ? (
    <>
      <span class="kind">sa</span> {of.replace(":", "/")}
    </>
  ) : (
    user
  );
}

function policiesOf(r: Row): Ref[] {
  const all = new Map((r.rules ?? []).map((u) => [name(u.policy), u.policy]));
  return [...all.values()];
}

const columns: Column[] = [
  { name: "time", title: "Time" },
  { name: "verdict", title: "Verdict" },
  { name: "operation", title: "Operation" },
  { name: "object", title: "Object" },
  { name: "user", title: "User" },
  { name: "policy", title: "Policies" },
  { name: "number", title: "Took" },
];

function cells(r: Row) {
  const v = verdictOf(r);
  const policies = [...(r.candidate ? [r.candidate] : []), ...policiesOf(r)];
  return [
    <time dateTime={r.time}>{moment(r.time)}</time>,
    <span class={"state " + v.sort}>{r.differences?.length ? r.differences.join(", ") : v.title}</span>,
    r.operation,
    <span title={target(r)}>
      <span class="kind">{(r.kind || r.resource || r.path || "") + (r.subresource ? "/" + r.subresource : "")}</span> {place({ namespace: r.namespace ?? "", name: r.name ?? "" })}
    </span>,
    <span title={r.user}>{account(r.user)}</span>,
    policies.length ? <span title={policies.map(name).join("\n")}>{policies.map(place).join(", ")}</span> : <span class="quiet">–</span>,
    took(r.tookSeconds),
  ];
}

function Rule({ u }: { u: NonNullable<Row["rules"]>[number] }) {
  return (
    <li class="card neutral">
      <div class="row">
        <PolicyLink of={u.policy} />
        <span class="tag">
          {u.outcome}
          {u.ignored ? ", ignored" : ""}
        </span>
      </div>
      <p class="meta">
        <code>{u.rule}</code>
        {u.validations?.length ? <span>not held: {u.validations.join(", ")}</span> : null}
        {u.exemptions?.length ? <span>exempt by {u.exemptions.join(", ")}</span> : null}
      </p>
    </li>
  );
}

function Decided({ r }: { r: Row }) {
  const v = verdictOf(r);
  const policies = policiesOf(r);
  const named = r.apiVersion && r.kind && r.name;
  return (
    <>
      <div class="facts">
        <span class={"state " + v.sort}>{v.title}</span>
        {r.code ? <span class="tag">{r.code}</span> : null}
        {r.changed && v.title !== "changed" ? <span class="tag">changed</span> : null}
        {r.warned && v.title !== "warned" ? <span class="tag">warned</span> : null}
        {r.dryRun ? <span class="tag">dry run</span> : null}
      </div>
      <dl class="pairs">
        <dt>Request</dt>
        <dd>
          {r.operation} {target(r)}
        </dd>
        <dt>User</dt>
        <dd>{r.user}</dd>
        <dt>Time</dt>
        <dd>
          <time dateTime={r.time}>{r.time}</time>, took {took(r.tookSeconds)}
        </dd>
        <dt>Replica</dt>
        <dd>{r.replica || "–"}</dd>
        {r.uid ? (
          <>
            <dt>UID</dt>
            <dd>
              <code>{r.uid}</code>
            </dd>
          </>
        ) : null}
        {r.candidate ? (
          <>
            <dt>Candidate</dt>
            <dd>
              {name(r.candidate)}: {(r.differences ?? []).join(", ")}
            </dd>
          </>
        ) : null}
      </dl>
      <section>
        <h3>Rules that made a difference</h3>
        {r.rules?.length ? (
          <ul class="cards">
            {r.rules.map((u, i) => (
              <Rule key={i} u={u} />
            ))}
          </ul>
        ) : (
          <p class="quiet">No rule did.</p>
        )}
        {r.omitted ? <p class="quiet">and {count(r.omitted)} more</p> : null}
      </section>
      {policies.length > 0 && r.kind && r.apiVersion ? (
        <Explained
          subject={{
            ...(named ? { object: { apiVersion: r.apiVersion, kind: r.kind, ...(r.namespace ? { namespace: r.namespace } : {}), name: r.name! } } : {}),
            policies,
            user: r.user,
            operation: r.operation,
            ...(r.subresource ? { subresource: r.subresource } : {}),
            ...(r.uid && (r.verdict === "deny" || r.verdict === "error") ? { request: { uid: r.uid, ...(r.namespace ? { namespace: r.namespace } : {}), replica: r.replica } } : {}),
          }}
          exempt={r.exempt ?? ""}
          title={target(r)}
        />
      ) : r.exempt ? (
        <Exempt run={r.exempt} />
      ) : null}
      {r.explain ? <Line command={{ title: "With messages and values, in a shell", run: r.explain }} /> : null}
    </>
  );
}

const states = {
  connecting: { title: "Connecting …", sort: "neutral" },
  past: { title: "Reading what was decided …", sort: "neutral" },
  live: { title: "Live", sort: "allowed" },
  lost: { title: "Connection lost: trying again …", sort: "denied" },
  refused: { title: "Not shown", sort: "neutral" },
};

function Status() {
  const s = paused.value && phase.value === "live" ? { title: "Paused", sort: "warned" } : states[phase.value];
  return (
    <p class="counts">
      <span class={"state " + s.sort} role="status">
        {s.title}
      </span>
      {replicas.value ? <span class="quiet">{replicas.value === 1 ? "1 replica" : `${replicas.value} replicas`}</span> : null}
      <span class="quiet">{count(shown.value.length)} shown</span>
    </p>
  );
}

/** Lost says what is not in the list, and why. */
function Lost() {
  const away = Object.entries(notices.value);
  return (
    <>
      {lostInAll.value > 0 ? (
        <p class="strip warned-strip" role="status" id="lost">
          <b>
            {count(lostInAll.value)} {lostInAll.value === 1 ? "decision was" : "decisions were"} lost
          </b>
          <span>
            They were made faster than they were read:{" "}
            {Object.entries(lost.value)
              .map(([replica, n]) => `${replica || "the server"} ${count(n)}`)
              .join(", ")}
            . A narrower filter loses fewer.
          </span>
        </p>
      ) : null}
      {problem.value ? (
        <p class="strip failed" role="alert">
          {problem.value}
        </p>
      ) : null}
      {dropped.value > 0 ? <p class="strip">{count(dropped.value)} older ones are no longer kept on this page.</p> : null}
      {away.map(([replica, text]) => (
        <p key={replica} class="strip" role="status">
          <b>{replica}</b> <span>{text}</span>
        </p>
      ))}
    </>
  );
}

function Text({ of, placeholder }: { of: string; placeholder: string }) {
  return (
    <label>
      <span class="hidden">{placeholder}</span>
      <input type="text" id={"filter-" + of} placeholder={placeholder} spellcheck={false} autocomplete="off" value={param(of)} onChange={(e) => filter({ [of]: e.currentTarget.value.trim() })} onKeyDown={(e) => e.key === "Enter" && filter({ [of]: e.currentTarget.value.trim() })} />
    </label>
  );
}

function Outcomes() {
  const chosen = list("outcome");
  return (
    <div class="chips" role="group" aria-label="Outcomes">
      {outcomes.map((o) => (
        <button key={o} type="button" class="chip" aria-pressed={chosen.includes(o)} onClick={() => filter({ outcome: joined(chosen.includes(o) ? chosen.filter((c) => c !== o) : [...chosen, o]) })}>
          {o}
        </button>
      ))}
      <button type="button" class="chip" aria-pressed={param("candidates") === "true"} title="What candidates would decide otherwise" onClick={() => filter({ candidates: param("candidates") === "true" ? "" : "true" })}>
        candidates
      </button>
    </div>
  );
}

function asked(): string {
  const query = new URLSearchParams({ last: "200" });
  if (namespaceOf()) {
    query.set("namespace", namespaceOf());
  }
  for (const key of ["policy", "user", "kind", "slowerThan", "candidates"]) {
    if (param(key)) {
      query.set(key, param(key));
    }
  }
  list("outcome").forEach((o) => query.append("outcome", o));
  return query.toString();
}

const any = () => ["policy", "user", "kind", "slowerThan", "outcome", "namespace", "candidates"].some((k) => param(k) !== "");

function Empty() {
  if (phase.value === "connecting" || phase.value === "past") {
    return <Waiting what="decisions" />;
  }
  if (phase.value === "refused") {
    return <Nothing title="Decisions are not shown" />;
  }
  return (
    <Nothing title={any() ? "No decision is selected by these filters" : "Nothing was decided yet"}>
      <p>{phase.value === "live" ? `Since ${clock(new Date())} the page waits for the next one.` : ""}</p>
    </Nothing>
  );
}

export function LiveView() {
  const query = asked();
  const c = connection.value;
  useEffect(() => {
    if (c === "ok") {
      follow(query);
    } else if (c === "lost") {
      leave();
      phase.value = "lost";
    }
    return leave;
  }, [query, c]);
  const detail = useDetail(shown.value, keyOf, "live-rows");
  useEffect(() => {
    reading.value = detail.row !== null;
    return () => (reading.value = false);
  }, [detail.row === null]);
  const [filters, setFilters] = useState(false);
  const n = waiting.value.length;
  return (
    <section id="live" class="view" aria-labelledby="view-title">
      <div class="toolbar">
        <h2 id="view-title">Live</h2>
        <Namespace />
        <button type="button" class="only-narrow" aria-expanded={filters} aria-controls="live-filters" onClick={() => setFilters(!filters)}>
          <Icon name="filter" /> Filters
        </button>
        <div id="live-filters" class={"filters" + (filters ? " open" : "")}>
          <Text of="policy" placeholder="policy" />
          <Text of="user" placeholder="user" />
          <Text of="kind" placeholder="kind" />
          <Text of="slowerThan" placeholder="slower than 100ms" />
        </div>
        <button type="button" id="pause" aria-pressed={paused.value} onClick={() => (paused.value = !paused.value)}>
          <Icon name={paused.value ? "test" : "pause"} /> {paused.value ? "Go on" : "Pause"}
        </button>
        <button type="button" id="clear" onClick={clear}>
          Clear
        </button>
      </div>
      <div class="subbar live-bar">
        <Status />
        <Outcomes />
      </div>
      <Lost />
      {refusal.value ? <Missing gaps={[refusal.value]} /> : null}
      <div class={"halves-live no-facets" + (detail.row ? " with-detail" : "")}>
        <div class="middle">
          {n > 0 ? (
            <button type="button" id="new" class="new primary" onClick={release}>
              {count(n)} new
            </button>
          ) : null}
          <p class="hidden" role="status">
            {n > 0 ? "New decisions wait." : ""}
          </p>
          {shown.value.length > 0 ? (
            <Rows<Row> id="live-rows" label="Decisions" columns={columns} rows={shown.value} keyOf={keyOf} selected={detail.key} onOpen={detail.open} onTop={(t) => (top.value = t)} begin={released.value} cells={cells} />
          ) : (
            <Empty />
          )}
        </div>
        {detail.row ? (
          <Detail title={`${detail.row.operation} ${target(detail.row)}`} onClose={detail.close}>
            <Decided key={detail.key} r={detail.row} />
          </Detail>
        ) : null}
      </div>
    </section>
  );
}
