// What the server decided, and by which rules.

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Decision, Finding, Problem, Step, Tests } from "./api";
import { focusers } from "./editor";
import { blank, cases, connection, deciding, decision, failure, info, pane, policies, resultTab, runTests, testFailure, testing, tests } from "./model";
import type { ResultTab } from "./model";
import { Copy, Icon, Tabs } from "./parts";

const sorts: Record<string, { sort: string; title: string }> = {
  allowed: { sort: "allowed", title: "Allowed" },
  warned: { sort: "warned", title: "Allowed with warnings" },
  denied: { sort: "denied", title: "Denied" },
  failed: { sort: "denied", title: "Failed" },
  changed: { sort: "changed", title: "Allowed with changes" },
};

export function sortOf(verdict: string): { sort: string; title: string } {
  return sorts[verdict] ?? { sort: "neutral", title: verdict === "" ? needed() : verdict.charAt(0).toUpperCase() + verdict.slice(1) };
}

function needed(): string {
  return policies.value.trim() === "" ? "A request is there: a policy is needed" : "A policy is there: a request is needed";
}

/** Whether lines are of the policies in the playground's editor, and lead there. */
export const Places = createContext(true);

function place(line?: number): void {
  pane.value = "policies";
  setTimeout(() => focusers.get("Policies")?.(line), 0);
}

function name(of: { policy?: string; rule?: string }): string {
  return [of.policy, of.rule].filter((s) => s).join(" / ");
}

/** Name leads to the line of the rule, where that is known. */
function Name({ of }: { of: { policy: string; rule?: string; line?: number } }) {
  const places = useContext(Places);
  return of.line && places ? (
    <button type="button" class="link name" title={`line ${of.line}`} onClick={() => place(of.line)}>
      {name(of)}
    </button>
  ) : (
    <span>{name(of)}</span>
  );
}

function Problems({ problems }: { problems: Problem[] }) {
  const places = useContext(Places);
  return (
    <section>
      <h3>Problems of the policies</h3>
      <ul class="cards">
        {problems.map((p, i) => (
          <li key={i} class={p.severity === "warning" || p.severity === "info" ? "card warned" : "card denied"}>
            <p class="said">{p.message}</p>
            <p class="meta">
              {p.policy ? <span>{p.policy}</span> : null}
              {p.line && places ? (
                <button type="button" class="link" onClick={() => place(p.line)}>
                  line {p.line}
                </button>
              ) : null}
            </p>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Findings leaves out the sentence of the only one if the user has got it above. */
function Findings({ findings, said }: { findings: Finding[]; said: string[] }) {
  const repeated = findings.length === 1 && said.some((s) => s.includes(findings[0]!.message));
  return (
    <section>
      <h3>{repeated ? "Said by" : "Messages"}</h3>
      <ul class="cards">
        {findings.map((f, i) => (
          <li key={i} class={"card " + (f.excused ? "neutral" : /^(deny|denied)$/i.test(f.action ?? "") ? "denied" : "warned")}>
            {repeated ? null : <p class="said">{f.message}</p>}
            <p class="meta">
              <Name of={f} />
              {f.field ? <code>{f.field}</code> : null}
              {f.action ? <span class="tag">{f.action}</span> : null}
              {f.excused ? <span class="tag">{typeof f.excused === "string" ? f.excused : "excused"}</span> : null}
            </p>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Diff({ diff }: { diff: string }) {
  return (
    <section>
      <h3>Changes</h3>
      <pre class="diff" role="region" tabIndex={0} aria-label="Changes">
        {diff
          .replace(/\n$/, "")
          .split("\n")
          .map((line, i) => {
            const sign = line.trimStart().charAt(0);
            const Tag = sign === "+" ? "ins" : sign === "-" ? "del" : "span";
            return <Tag key={i}>{line + "\n"}</Tag>;
          })}
      </pre>
    </section>
  );
}

/** time shows nanoseconds. */
function time(ns: number): string {
  const [n, unit] = ns < 1e6 ? [ns / 1e3, "µs"] : ns < 1e9 ? [ns / 1e6, "ms"] : [ns / 1e9, "s"];
  return `${n < 10 ? Number(n.toPrecision(2)) : Math.round(n)} ${unit}`;
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value) ?? "";
}

/** Trace leaves out a reason that the verdict or a warning has said. */
function Trace({ trace, said }: { trace: Step[]; said: string[] }) {
  return (
    <section>
      <h3>Rules</h3>
      <ol class="trace">
        {trace.map((s, i) => (
          <li key={`${name(s)} ${s.field ?? ""} ${i}`}>
            <div class="step">
              <span class={"outcome " + outcomeSort(s.outcome)}>{s.outcome}</span>
              <span class="rule">
                <Name of={s} />
                {s.field ? <code>{s.field}</code> : null}
              </span>
              <span class="figure">{s.cost ? time(s.cost) : s.duration}</span>
            </div>
            {s.reason && !said.some((t) => t.includes(s.reason!)) ? <p class="reason">{s.reason}</p> : null}
            {s.values?.length ? (
              <dl class="values">
                {s.values.map((v, j) => (
                  <div key={j} style={{ paddingLeft: `${Math.min(v.depth ?? 0, 6) * 12}px` }}>
                    <dt>
                      <code>{v.expression}</code>
                    </dt>
                    <dd>
                      {v.error ? <span class="failed">{v.error}</span> : <code>{shown(v.value)}</code>}
                    </dd>
                  </div>
                ))}
              </dl>
            ) : null}
            {s.budget ? (
              <p class="cost">
                <meter min={0} max={s.budget} value={Math.min(s.cost ?? 0, s.budget)} aria-label={`cost of ${name(s)}`} />
                <span class="figure">of {time(s.budget)}</span>
              </p>
            ) : null}
          </li>
        ))}
      </ol>
    </section>
  );
}

function outcomeSort(outcome: string): string {
  if (/den|fail|reject|error/i.test(outcome)) {
    return "denied";
  }
  if (/warn|audit/i.test(outcome)) {
    return "warned";
  }
  if (/chang|mutat|appl/i.test(outcome)) {
    return "changed";
  }
  return /allow|pass/i.test(outcome) ? "allowed" : "neutral";
}

function Verdict({ d }: { d: Decision }) {
  const { sort, title } = sortOf(d.verdict);
  const places = useContext(Places);
  return (
    <div class={"verdict " + sort}>
      <span class="badge">
        <Icon name={sort === "neutral" ? "help" : sort} />
      </span>
      <div>
        <div class="row">
          <h3 id={places ? "verdict" : undefined}>{title}</h3>
          {d.took ? <span class="figure">{d.took}</span> : null}
        </div>
        {d.message ? <p class="said">{d.message}</p> : null}
      </div>
    </div>
  );
}

export function DecisionView({ d }: { d: Decision }) {
  const said = [d.message ?? "", ...(d.warnings ?? [])];
  return (
    <>
      <Verdict d={d} />
      {d.problems?.length ? <Problems problems={d.problems} /> : null}
      {d.warnings?.length ? (
        <section>
          <h3>Warnings to the user</h3>
          <ul class="cards">
            {d.warnings.map((w, i) => (
              <li key={i} class="card warned">
                <p class="said">{w}</p>
              </li>
            ))}
          </ul>
        </section>
      ) : null}
      {d.findings?.length ? <Findings findings={d.findings} said={said} /> : null}
      {d.diff ? <Diff diff={d.diff} /> : null}
      {d.trace?.length ? <Trace trace={d.trace} said={said} /> : null}
    </>
  );
}

interface Ways {
  onExamples: () => void;
  onFiles: () => void;
  onWhy: () => void;
}

function Empty({ onExamples, onFiles, onWhy }: Ways) {
  const folder = info.value?.files?.length ? (info.value.folder ?? "").replace(/[\\/]+$/, "").split(/[\\/]/).pop() : "";
  return (
    <div class="empty">
      <h3>Nothing to decide yet</h3>
      <p>Write a policy and a request: the decision is here as you type.</p>
      <p class="actions">
        {folder ? (
          <button type="button" class="primary" id="files" onClick={onFiles}>
            <Icon name="open" /> Files of {folder}
          </button>
        ) : null}
        <button type="button" class={folder ? "" : "primary"} onClick={onExamples}>
          <Icon name="book" /> Examples
        </button>
        <button type="button" onClick={onWhy}>
          <Icon name="why" /> Why was I refused?
        </button>
      </p>
    </div>
  );
}

function CasesView({ t }: { t: Tests | null }) {
  const all = (t?.suites ?? []).flatMap((s) => s.cases ?? []);
  const failed = all.filter((c) => !c.passed).length;
  return (
    <>
      <div class="row">
        <p class={"summary " + (failed > 0 || testFailure.value ? "denied" : all.length > 0 ? "allowed" : "")} role="status">
          {testFailure.value
            ? testFailure.value
            : t === null
              ? testing.value
                ? "Running the cases …"
                : "The cases have not been run."
              : all.length === 0
                ? "There are no cases. Save the request as a case: it says what the policies have to decide."
                : failed === 0
                  ? `${all.length} of ${all.length} cases passed`
                  : `${failed} of ${all.length} cases failed`}
        </p>
        <button type="button" onClick={() => void runTests()} disabled={testing.value}>
          <Icon name="test" /> Run
        </button>
      </div>
      {(t?.suites ?? []).map((s) => (
        <section key={s.file}>
          <h3>{!s.file || cases.value.trim() !== "" ? "Cases of this page" : s.file}</h3>
          <ul class="cases">
            {(s.cases ?? []).map((c, i) => (
              <li key={i} class={c.passed ? "allowed" : "denied"}>
                <Icon name={c.passed ? "allowed" : "denied"} />
                <span>
                  <span class="hidden">{c.passed ? "passed: " : "failed: "}</span>
                  {c.name}
                  {c.message ? <pre role="region" tabIndex={0} aria-label={"message of " + c.name}>{c.message}</pre> : null}
                </span>
              </li>
            ))}
          </ul>
        </section>
      ))}
    </>
  );
}

function Body({ tab, ...ways }: { tab: ResultTab } & Ways) {
  if (tab === "cases") {
    return <CasesView t={tests.value} />;
  }
  if (connection.value === "starting") {
    return <p class="quiet">Asking the server …</p>;
  }
  if (blank.value) {
    return <Empty {...ways} />;
  }
  const d = decision.value;
  if (failure.value !== "") {
    return (
      <div class="verdict denied" role="alert">
        <span class="badge">
          <Icon name="denied" />
        </span>
        <div>
          <h3 id="verdict">The request cannot be decided</h3>
          <p class="said">{failure.value}</p>
        </div>
      </div>
    );
  }
  if (d === null) {
    return <p class="quiet">Deciding …</p>;
  }
  const text = tab === "text" ? d.text : d.object;
  if (tab === "decision") {
    return <DecisionView d={d} />;
  }
  return text ? (
    <>
      <div class="row">
        <p class="quiet">{tab === "text" ? "What usher decide prints." : "The object after all changes."}</p>
        <Copy text={text} />
      </div>
      <pre class="text" role="region" tabIndex={0} aria-label={tab === "text" ? "Text of the decision" : "Object after all changes"}>
        {text}
      </pre>
    </>
  ) : (
    <p class="quiet">There is none.</p>
  );
}

export function Result(props: Ways) {
  const tab = resultTab.value;
  const all = (tests.value?.suites ?? []).flatMap((s) => s.cases ?? []);
  const passed = all.filter((c) => c.passed).length;
  return (
    <section id="result" class={pane.value === "result" ? "pane shown" : "pane"} aria-label="Result">
      <div class="head">
        <h2>Result</h2>
        <Tabs
          label="Views of the result"
          id="result"
          value={tab}
          onSelect={(t) => (resultTab.value = t)}
          tabs={[
            { id: "decision", title: "Decision" },
            { id: "object", title: "Object" },
            { id: "cases", title: "Cases", note: all.length > 0 ? `${passed}/${all.length}` : "" },
            { id: "text", title: "Text" },
          ]}
        />
      </div>
      <div
        class={"body" + (deciding.value && tab !== "cases" ? " busy" : "")}
        role="tabpanel"
        id="result-panel"
        aria-labelledby={`result-tab-${tab}`}
        aria-busy={deciding.value}
        tabIndex={0}
      >
        <Body tab={tab} {...props} />
      </div>
      <p class="hidden" role="status">
        {decision.value && !failure.value ? sortOf(decision.value.verdict).title : ""}
      </p>
    </section>
  );
}
