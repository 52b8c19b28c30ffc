// What the views of a cluster are made of.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { chosenAs, cluster, clusterError, namespaceOf, nothing, place } from "./cluster";
import type { Ask, Command, ExemptionRow, Gap, Loaded, Ref } from "./cluster";
import { cases, casesFile, connection, load, opened, pane, remember, resultTab, said } from "./model";
import type { State } from "./api";
import { Copy, Icon } from "./parts";
import { filter, go, href } from "./route";

const kept = new Map<string, { data: unknown; at: Date }>();

/** useAsk asks once for each key, and again when it is told to. What it had for a key is there at once. */
export function useAsk<T>(key: string, ask: Ask<T>): Loaded<T> & { at: Date | null; reload: () => void } {
  const [state, setState] = useState<Loaded<T> & { key: string }>({ ...nothing, key: "" });
  const [turn, setTurn] = useState(0);
  const c = connection.value;
  const failed = useRef(false);
  useEffect(() => {
    if (c === "ok" && failed.current) {
      setTurn((n) => n + 1);
    }
  }, [c]);
  useEffect(() => {
    const abort = new AbortController();
    const before = (kept.get(key)?.data as T | undefined) ?? null;
    setState({ data: before, error: "", loading: true, key });
    const soFar = (data: T) => {
      if (before === null && !abort.signal.aborted) {
        setState({ data, error: "", loading: true, key });
      }
    };
    ask(abort.signal, soFar).then(
      (data) => {
        if (abort.signal.aborted) {
          return;
        }
        failed.current = false;
        kept.delete(key);
        kept.set(key, { data, at: new Date() });
        if (kept.size > 8) {
          kept.delete(kept.keys().next().value!);
        }
        setState({ data, error: "", loading: false, key });
      },
      (e: unknown) => {
        if (!abort.signal.aborted) {
          failed.current = true;
          setState({ data: before, error: said(e), loading: false, key });
        }
      },
    );
    return () => abort.abort();
  }, [key, turn]);
  const shown = state.key === key ? state : { ...nothing, data: (kept.get(key)?.data as T | undefined) ?? null };
  return { data: shown.data, error: shown.error, loading: shown.loading, at: kept.get(key)?.at ?? null, reload: () => setTurn((n) => n + 1) };
}

/** sentence begins with a capital letter, as what stands alone on a page does, unless it begins with a name. */
export function sentence(text: string): string {
  return /^[a-z]+[ ,]/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
}

export function Line({ command }: { command: Command }) {
  return (
    <div class="command">
      {command.title ? <p class="label">{sentence(command.title)}</p> : null}
      <div class="line">
        <pre role="region" tabIndex={0} aria-label={command.title || command.run}>
          {command.run}
        </pre>
        <Copy text={command.run} />
      </div>
    </div>
  );
}

/** Missing says what this user cannot see. */
export function Missing({ gaps }: { gaps: Gap[] }) {
  return gaps.length === 0 ? null : (
    <section class="missing" aria-label="What is not shown">
      {gaps.map((g) => (
        <div key={g.what + g.text} class="gap">
          <p class="said">
            <span class="tag">{g.what}</span> {sentence(g.text)}
          </p>
          {g.run ? <Line command={{ title: "", run: g.run }} /> : null}
        </div>
      ))}
    </section>
  );
}

export function Wrong({ title, error, onAgain }: { title: string; error: string; onAgain?: () => void }) {
  return (
    <div class="verdict denied" role="alert">
      <span class="badge">
        <Icon name="denied" />
      </span>
      <div>
        <h3>{title}</h3>
        <p class="said">{error}</p>
        {onAgain ? (
          <p class="actions">
            <button type="button" onClick={onAgain}>
              <Icon name="again" /> Try again
            </button>
          </p>
        ) : null}
      </div>
    </div>
  );
}

/** Waiting has the shape of what will be there. It is shown only if that takes a moment. */
export function Waiting({ what }: { what: string }) {
  return (
    <div class="waiting" role="status">
      <span class="hidden">Loading {what} …</span>
      {Array.from({ length: 8 }, (_, i) => (
        <span key={i} class={"bone bone-" + (i % 4)} aria-hidden="true" />
      ))}
    </div>
  );
}

export function Nothing({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h3>{title}</h3>
      {children}
    </div>
  );
}

/** Namespace says which namespace is looked at, and changes it. */
export function Namespace() {
  const now = namespaceOf();
  const [text, setText] = useState(now);
  useEffect(() => setText(now), [now]);
  return (
    <form
      class="namespace"
      onSubmit={(e) => {
        e.preventDefault();
        filter({ namespace: chosenAs(text.trim()) });
      }}
    >
      <label>
        <span class="hidden">Namespace</span>
        <input
          type="text"
          id="namespace"
          placeholder="all namespaces"
          spellcheck={false}
          autocomplete="off"
          value={text}
          onInput={(e) => setText(e.currentTarget.value)}
          onChange={(e) => filter({ namespace: chosenAs(e.currentTarget.value.trim()) })}
        />
      </label>
    </form>
  );
}

export function Updated({ at, loading, onReload }: { at: Date | null; loading: boolean; onReload: () => void }) {
  return (
    <p class="updated">
      <span class="figure">{at ? clock(at) : ""}</span>
      <button type="button" class="plain" id="reload" aria-label="Load again" title="Load again" disabled={loading} onClick={onReload}>
        <Icon name="again" />
      </button>
    </p>
  );
}

/** Off is the view of a console that has no cluster. */
export function Off() {
  const c = cluster.value;
  if (c === null) {
    return <div class="page">{clusterError.value ? <Wrong title="The console does not say which cluster it has" error={clusterError.value} /> : <Waiting what="the cluster" />}</div>;
  }
  return (
    <div class="page narrow">
      <div class="empty">
        <h2>This console has no cluster</h2>
        <p>Policies, violations and decisions of a cluster are here if the console is started with one. It reads them with your own rights, and writes nothing.</p>
      </div>
      {c.missing.length > 0 ? c.missing.map((g) => <Line key={g.text} command={{ title: g.text, run: g.run }} />) : <Line command={{ title: "With the cluster of your kubeconfig", run: "usher console --from-cluster" }} />}
    </div>
  );
}

/** PolicyLink leads to a policy. In a row it is none of the stops of Tab: Enter opens the row. */
export function PolicyLink({ of, row }: { of: Ref; row?: boolean }) {
  return (
    <a class="ref" tabIndex={row ? -1 : undefined} href={href("policy", { kind: of.kind, ns: of.namespace, name: of.name })}>
      <span class="kind">{of.kind}</span> <span class="of">{place(of)}</span>
    </a>
  );
}

/** play opens a state in the playground. */
export function play(state: State, title: string): void {
  remember();
  cases.value = "";
  casesFile.value = "";
  opened.value = { title };
  load(state);
  resultTab.value = "decision";
  pane.value = "result";
  go("playground");
}

export function Exemptions({ rows }: { rows: ExemptionRow[] }) {
  return (
    <ul class="cards">
      {rows.map((x) => {
        const ends = x.expired ? "expired" : x.expires ? `until ${day(x.expires)}` : "without an end";
        return (
          <li key={x.ref.kind + place(x.ref)} class={"card " + (x.problem ? "denied" : x.expired || x.suspended ? "neutral" : "allowed")}>
            <div class="row">
              <strong>{place(x.ref)}</strong>
              <span class="figure">
                {x.uses} {x.uses === 1 ? "use" : "uses"}
              </span>
            </div>
            <p class="said">{x.reason}</p>
            <p class="meta">
              <span>{x.ref.kind}</span>
              {x.owner ? <span>ask {x.owner}</span> : null}
              <span class="tag">{ends}</span>
              {x.suspended ? <span class="tag">suspended</span> : null}
            </p>
            {x.problem ? <p class="failed">{x.problem}</p> : null}
          </li>
        );
      })}
    </ul>
  );
}

export function clock(at: Date): string {
  return at.toLocaleTimeString("en-GB");
}

export function time(text: string): string {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? text : clock(at);
}

/** moment has milliseconds, since many decisions are in one second. */
export function moment(text: string): string {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? text : `${clock(at)}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

export function day(text: string): string {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? text : at.toISOString().slice(0, 16).replace("T", " ") + " UTC";
}

export function count(n: number): string {
  return n.toLocaleString("en").replaceAll(",", "\u202f");
}

/** took shows seconds with two digits. */
export function took(seconds: number): string {
  const [n, unit] = seconds < 1e-3 ? [seconds * 1e6, "µs"] : seconds < 1 ? [seconds * 1e3, "ms"] : [seconds, "s"];
  return `${n < 10 ? Number(n.toPrecision(2)) : Math.round(n)} ${unit}`;
}

export const severities = ["critical", "high", "medium", "low", "info"];

export function Severity({ of }: { of: string }) {
  return of ? <span class={"severity " + of}>{of}</span> : <span class="quiet">–</span>;
}
