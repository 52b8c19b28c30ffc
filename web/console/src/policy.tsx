// One policy: its source with problems in place, and what is known of it.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { firstOf, lastOf, name, place, policyOf, refOf } from "./cluster";
import type { Policy } from "./cluster";
import { Editor, focusers } from "./editor";
import { Exemptions, Line, Missing, Severity, Updated, Waiting, Wrong, count, day, play, sentence, time, useAsk } from "./looks";
import { empty } from "./model";
import { Icon } from "./parts";
import { Candidates, State, spaced, stateSort } from "./policies";
import { href, joined, where } from "./route";
import { sortOfStatus } from "./violations";
import { target, verdictOf } from "./verdict";

const source = signal("");
const shownProblems = signal<Policy["problems"]>([]);

function Section({ title, note, children }: { title: string; note?: string; children: ComponentChildren }) {
  return (
    <section class="part">
      <h3>
        {title}
        {note ? <span class="note"> {note}</span> : null}
      </h3>
      {children}
    </section>
  );
}

/** Without is what is not shown of one part, in its place. */
function Without({ p, what, title }: { p: Policy; what: string; title: string }) {
  const gaps = p.missing.filter((g) => g.what === what);
  return gaps.length === 0 ? null : (
    <Section title={title}>
      <Missing gaps={gaps} />
    </Section>
  );
}

const few = 5;
const placed = ["replicas", "cost", "reads"];

function Replicas({ p }: { p: Policy }) {
  return p.replicas.length === 0 ? (
    <Without p={p} what="replicas" title="Replicas" />
  ) : (
    <Section title="Replicas" note={`${p.replicas.filter((r) => r.agrees && !r.failing).length} of ${p.replicas.length} enforce the same`}>
      <div class="wide" tabIndex={0} role="region" aria-label="Replicas">
        <table>
          <thead>
            <tr>
              <th scope="col">Replica</th>
              <th scope="col">Enforces</th>
              <th scope="col">Heard of</th>
              <th scope="col" class="number">
                Failures
              </th>
              <th scope="col">Fails with</th>
            </tr>
          </thead>
          <tbody>
            {p.replicas.map((r) => (
              <tr key={r.name}>
                <td>{r.name}</td>
                <td>
                  <span class={"state " + (r.agrees ? "allowed" : "denied")}>{r.agrees ? "the same" : "another version"}</span>
                </td>
                <td>{r.renewed ? time(r.renewed) : "–"}</td>
                <td class="number">{count(r.failures)}</td>
                <td class={r.failing ? "failed" : "quiet"}>{r.failing || "–"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

function Conditions({ p }: { p: Policy }) {
  return p.conditions.length === 0 ? null : (
    <Section title="Conditions">
      <ul class="cards">
        {p.conditions.map((c) => (
          <li key={c.type} class={"card " + (c.status === "True" ? "allowed" : c.status === "False" ? "denied" : "neutral")}>
            <div class="row">
              <strong>
                {c.type}: {c.status}
              </strong>
              <span class="figure">{c.since ? day(c.since) : ""}</span>
            </div>
            {c.message ? <p class="said">{c.message}</p> : null}
            {c.reason ? <p class="meta">{c.reason}</p> : null}
          </li>
        ))}
      </ul>
    </Section>
  );
}

function Reads({ p }: { p: Policy }) {
  return p.reads.length === 0 ? (
    <Without p={p} what="reads" title="Reads" />
  ) : (
    <Section title="Reads">
      <ul class="plain-list">
        {p.reads.map((r, i) => (
          <li key={i}>
            {r.as ? <code>{r.as}</code> : null} <span class="said">{r.what}</span>
            {r.right ? <span class="meta">needs {r.right}</span> : null}
          </li>
        ))}
      </ul>
    </Section>
  );
}

function Problems({ p }: { p: Policy }) {
  return p.problems.length === 0 ? null : (
    <Section title="Problems" note={count(p.problems.length)}>
      <ul class="cards">
        {p.problems.map((o, i) => (
          <li key={i} class={"card " + (o.severity === "warning" || o.severity === "info" ? "warned" : "denied")}>
            <p class="said">{o.message}</p>
            <p class="meta">
              {o.field ? <code>{o.field}</code> : null}
              {o.line ? (
                <button type="button" class="link" onClick={() => focusers.get("Source")?.(o.line)}>
                  line {o.line}
                </button>
              ) : null}
            </p>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function First({ p }: { p: Policy }) {
  const ref = p.policy.ref;
  const namespace = ref.namespace ?? where.value.replace("*", "");
  const { data, error } = useAsk(`first ${namespace} ${name(ref)}`, firstOf(namespace, ref));
  const items = data?.items ?? [];
  const note = data ? (items.length === 0 ? "none" : count(items.length) + (data.continue ? "+" : "")) : "";
  return (
    <Section title="Violations" note={note}>
      {error ? <p class="quiet">{sentence(error)}</p> : null}
      {data ? <Missing gaps={data.missing} /> : null}
      {items.length > 0 ? (
        <ul class="plain-list">
          {items.slice(0, few).map((v, i) => (
            <li key={i} class="short">
              <span class={"state " + sortOfStatus(v.status)}>{v.status}</span>
              <span>
                <span class="kind">{v.object.kind}</span> {place(v.object)}
              </span>
            </li>
          ))}
        </ul>
      ) : null}
      {items.length > 0 ? <a href={href("violations", { policy: joined([name(ref)]) })}>All violations</a> : null}
    </Section>
  );
}

function Last({ p }: { p: Policy }) {
  const ref = p.policy.ref;
  const namespace = ref.namespace ?? where.value.replace("*", "");
  const { data, error } = useAsk(`last ${namespace} ${name(ref)}`, lastOf(namespace, ref));
  return (
    <Section title="Last decisions" note={data?.length === 0 ? "none" : ""}>
      {error ? <p class="quiet">{sentence(error)}</p> : null}
      {data && data.length > 0 ? (
        <ul class="plain-list">
          {data.slice(0, few).map((r, i) => (
            <li key={i} class="short">
              <span class={"state " + verdictOf(r).sort}>{verdictOf(r).title}</span>
              <span>
                <time dateTime={r.time}>{time(r.time)}</time> {r.operation} {target(r)}
              </span>
            </li>
          ))}
        </ul>
      ) : null}
      {data && data.length > 0 ? <a href={href("live", { policy: `${ref.kind}/${place(ref)}` })}>Follow its decisions</a> : null}
    </Section>
  );
}

function Facts({ p }: { p: Policy }) {
  const row = p.policy;
  return (
    <div class="facts">
      <State of={row.state} />
      {row.action ? <span class="tag">{spaced(row.action)}</span> : null}
      {row.severity ? <Severity of={row.severity} /> : null}
      {row.category ? <span class="tag">{row.category}</span> : null}
      {row.foreign ? <span class="tag">enforced by API servers</span> : null}
    </div>
  );
}

function About({ p }: { p: Policy }) {
  const ref = p.policy.ref;
  const policy = `${ref.kind}/${place(ref)}`;
  return (
    <div class="about-policy scroll" tabIndex={0} role="region" aria-label="What is known of the policy">
      <Facts p={p} />
      {p.policy.why && p.policy.state !== "enforced" ? <p class={"said why " + stateSort(p.policy.state)}>{sentence(p.policy.why)}</p> : null}
      {p.description ? <p class="said">{p.description}</p> : null}
      <p class="actions">
        <a class="button" href={href("violations", { policy: joined([name(ref)]) })}>
          <Icon name="warned" /> Violations
        </a>
        <a class="button" href={href("live", { policy })}>
          <Icon name="test" /> Decisions
        </a>
        <button type="button" class="primary" id="play" onClick={() => play({ ...empty, policies: p.source }, name(ref))}>
          <Icon name="open" /> Open in the playground
        </button>
      </p>
      <Missing gaps={p.missing.filter((g) => !placed.includes(g.what))} />
      <Problems p={p} />
      <Replicas p={p} />
      <Conditions p={p} />
      {p.selects.length > 0 ? (
        <Section title="Selects">
          <ul class="plain-list">
            {p.selects.map((s) => (
              <li key={s} class="said">
                {s}
              </li>
            ))}
          </ul>
        </Section>
      ) : null}
      <Reads p={p} />
      <Without p={p} what="cost" title="Cost" />
      <First p={p} />
      <Last p={p} />
      <Section title="Exemptions" note={p.exemptions.length ? count(p.exemptions.length) : "none"}>
        <Exemptions rows={p.exemptions} />
      </Section>
      {p.candidates.length > 0 ? (
        <Section title="Candidates" note={count(p.candidates.length)}>
          <Candidates rows={p.candidates} />
        </Section>
      ) : null}
      <Section title="Change it" note="the console changes nothing: copy a line">
        {p.commands.map((c) => (
          <Line key={c.title + c.run} command={c} />
        ))}
      </Section>
      {p.links.length > 0 ? (
        <Section title="Links">
          <ul class="plain-list">
            {p.links.map((l) => (
              <li key={l}>
                <code class="said">{l}</code>
              </li>
            ))}
          </ul>
        </Section>
      ) : null}
    </div>
  );
}

export function PolicyView() {
  const ref = refOf();
  const { data, error, loading, at, reload } = useAsk("policy " + name(ref), policyOf(ref));
  useEffect(() => {
    source.value = data?.source ?? "";
    shownProblems.value = data?.problems ?? [];
  }, [data]);
  return (
    <section id="policy" class="view" aria-labelledby="view-title">
      <div class="toolbar">
        <a class="button plain" href={href("policies")} aria-label="All policies" title="All policies">
          <Icon name="back" />
        </a>
        <h2 id="view-title" class="long">
          <span class="kind">{ref.kind}</span> {place(ref)}
        </h2>
        <Updated at={at} loading={loading} onReload={reload} />
      </div>
      {error && data ? <p class="strip failed" role="alert">Not loaded again: {error}</p> : null}
      {data ? (
        <div class="policy-halves">
          <div class="source">
            <Editor text={source} label="Source" hint="" readOnly problems={shownProblems} />
          </div>
          <About p={data} />
        </div>
      ) : error ? (
        <Wrong title="The policy cannot be read" error={error} onAgain={reload} />
      ) : (
        <Waiting what="the policy" />
      )}
    </section>
  );
}
