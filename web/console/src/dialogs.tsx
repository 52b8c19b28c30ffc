// What opens over the page: examples, import, why, sharing, cases, help.

import { signal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, post } from "./api";
import type { Imported, Match, State } from "./api";
import { focusers } from "./editor";
import { cases, casesFile, info, load, openFile, opened, pane, policies, refresh, remember, requestTab, resultTab, said, state, versions } from "./model";
import { Copy, Dialog, Icon, download } from "./parts";

export type Name = "examples" | "import" | "why" | "share" | "open" | "case" | "help";
export const dialog = signal<Name | null>(null);
/** What the import dialog, or the search of examples, starts with. */
export const pasted = signal("");

const close = () => (dialog.value = null);

function Failed({ error }: { error: string }) {
  return error ? (
    <p class="failed" role="alert">
      {error}
    </p>
  ) : null;
}

interface Entry {
  id: string;
  title: string;
  group: string;
  about: string;
  open: () => Promise<void>;
}

function entries(): Entry[] {
  const files = (info.value?.files ?? []).map((f) => ({
    id: "file " + f.path,
    title: f.path,
    group: "folder",
    about: f.kind ?? "",
    open: () => openFile(f.path),
  }));
  const examples = (info.value?.examples ?? []).map((e) => ({
    id: "example " + e.name,
    title: e.title || e.name,
    group: e.pack,
    about: [e.name, e.category, e.description].filter((s) => s && s !== e.title && s.toLowerCase() !== e.pack.toLowerCase()).join(" · "),
    open: async () => {
      const s = await get<State>("examples/" + e.name.split("/").map(encodeURIComponent).join("/"));
      remember();
      cases.value = "";
      casesFile.value = "";
      opened.value = { example: e.name, title: e.title || e.name };
      load(s);
    },
  }));
  return [...files, ...examples];
}

function Examples() {
  const [query, setQuery] = useState(pasted.value);
  const [at, setAt] = useState(0);
  const [error, setError] = useState("");
  const list = useRef<HTMLUListElement>(null);
  const all = useMemo(entries, [info.value]);
  const words = query.toLowerCase().split(/\s+/).filter((w) => w);
  const found = all.filter((e) => words.every((w) => `${e.title} ${e.group} ${e.about}`.toLowerCase().includes(w)));
  const selected = Math.min(at, found.length - 1);
  useEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [selected, query]);
  const choose = (e: Entry | undefined) =>
    e?.open().then(
      () => {
        resultTab.value = "decision";
        close();
      },
      (err: unknown) => setError(said(err)),
    );
  const move = (e: KeyboardEvent) => {
    const to = { ArrowDown: selected + 1, ArrowUp: selected - 1, PageDown: selected + 8, PageUp: selected - 8 }[e.key];
    if (to !== undefined) {
      setAt(Math.max(0, Math.min(to, found.length - 1)));
      e.preventDefault();
    } else if (e.key === "Enter") {
      void choose(found[selected]);
      e.preventDefault();
    }
  };
  return (
    <Dialog title="Examples and files" onClose={close}>
      <input
        type="text"
        class="big"
        role="combobox"
        aria-expanded="true"
        aria-controls="examples"
        aria-activedescendant={found.length ? `example-${selected}` : ""}
        aria-label="Search examples"
        placeholder="Search: labels, images, cost …"
        autofocus
        value={query}
        onInput={(e) => {
          setQuery(e.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={move}
      />
      <Failed error={error} />
      <ul id="examples" class="list" role="listbox" aria-label="Examples" ref={list} tabIndex={-1}>
        {found.map((e, i) => (
          <li
            key={e.id}
            id={`example-${i}`}
            role="option"
            aria-selected={i === selected}
            onMouseMove={() => setAt(i)}
            onClick={() => void choose(e)}
          >
            <span class="title">{e.title}</span>
            <span class="tag">{e.group}</span>
            {e.about ? <span class="about">{e.about}</span> : null}
          </li>
        ))}
      </ul>
      <p class="quiet" role="status">
        {info.value === null ? "Asking the server …" : found.length === 0 ? "Nothing has these words." : `${found.length} of ${all.length}`}
      </p>
    </Dialog>
  );
}

function Import() {
  const [text, setText] = useState(pasted.value);
  const [result, setResult] = useState<Imported | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    if (text.trim() === "") {
      setResult(null);
      setError("");
      return undefined;
    }
    const abort = new AbortController();
    const timer = setTimeout(
      () =>
        post<Imported>("import", { text }, abort.signal).then(
          (r) => {
            setResult(r);
            setError("");
          },
          (e: unknown) => {
            if (!abort.signal.aborted) {
              setResult(null);
              setError(said(e));
            }
          },
        ),
      200,
    );
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text]);
  const take = (before: string) => {
    remember();
    policies.value = before + (result?.policies ?? "");
    opened.value = null;
    close();
  };
  return (
    <Dialog title="Import policies of Kyverno or Gatekeeper" wide onClose={close}>
      <div class="halves">
        <label>
          <span>Paste them</span>
          <textarea rows={14} autofocus spellcheck={false} value={text} onInput={(e) => setText(e.currentTarget.value)} />
        </label>
        <div>
          <p class="label" role="status">
            {result ? `From ${result.engine}` : "What they become"}
          </p>
          <Failed error={error} />
          {result ? (
            <>
              {result.report ? (
                <pre class="text short" role="region" tabIndex={0} aria-label="Report of the import">
                  {result.report}
                </pre>
              ) : null}
              <pre class="text" role="region" tabIndex={0} aria-label="Imported policies">
                {result.policies}
              </pre>
            </>
          ) : error ? null : (
            <p class="quiet">The engine is recognized by the kinds.</p>
          )}
        </div>
      </div>
      <p class="actions">
        <button type="button" class="primary" disabled={!result?.policies} onClick={() => take("")}>
          Replace the policies
        </button>
        <button type="button" disabled={!result?.policies} onClick={() => take(policies.value.trimEnd() + "\n---\n")}>
          Append
        </button>
      </p>
    </Dialog>
  );
}

function Why() {
  const [message, setMessage] = useState("");
  const [matches, setMatches] = useState<Match[] | null>(null);
  const [error, setError] = useState("");
  const ask = () =>
    void post<{ matches?: Match[] | null }>("why", { message, policies: policies.value }).then(
      (r) => {
        setMatches(r.matches ?? []);
        setError("");
      },
      (e: unknown) => {
        setMatches(null);
        setError(said(e));
      },
    );
  return (
    <Dialog title="Why was I refused?" wide onClose={close}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          ask();
        }}
      >
        <label>
          <span>Paste the sentence that you got</span>
          <textarea
            rows={3}
            autofocus
            spellcheck={false}
            placeholder="label team is required (ClusterValidatePolicy require-team)"
            value={message}
            onInput={(e) => setMessage(e.currentTarget.value)}
            onKeyDown={(e) => {
              if (e.key === "Enter" && !e.shiftKey) {
                e.preventDefault();
                ask();
              }
            }}
          />
        </label>
        <p class="actions">
          <button type="submit" class="primary" disabled={message.trim() === ""}>
            Find the policy
          </button>
        </p>
      </form>
      <Failed error={error} />
      <div role="status">
        {matches?.length === 0 ? <p class="quiet">No policy of this page, of the folder or of the library says this.</p> : null}
      </div>
      {(matches ?? []).map((m, i) => (
        <section key={i} class="match">
          <h3>
            {m.policy}
            {m.rule ? ` / ${m.rule}` : ""}
            {m.file ? <span class="file"> {m.file}</span> : null}
          </h3>
          {m.explain ? <p class="said">{m.explain}</p> : null}
          {m.text ? (
            <pre class="text short" role="region" tabIndex={0} aria-label={`Source of ${m.policy}, line ${m.line ?? 0}`}>
              {m.text}
            </pre>
          ) : null}
          {m.exempt ? (
            <>
              <p class="label">To be exempt, somebody who may write exemptions runs</p>
              <pre class="text" role="region" tabIndex={0} aria-label="Command for an exemption">
                {m.exempt}
              </pre>
            </>
          ) : null}
          <p class="actions">
            {m.policies ? (
              <button
                type="button"
                class="primary"
                onClick={() => {
                  remember();
                  policies.value = m.policies ?? "";
                  opened.value = null;
                  close();
                  setTimeout(() => focusers.get("Policies")?.(m.line), 0);
                }}
              >
                Open the policy
              </button>
            ) : null}
            {m.exempt ? <Copy text={m.exempt} label="Copy the command" /> : null}
          </p>
        </section>
      ))}
    </Dialog>
  );
}

/** useText asks for a text that the server makes of the state. */
function useText(path: string): [string, string] {
  const [text, setText] = useState("");
  const [error, setError] = useState("");
  useEffect(() => {
    post<{ text: string }>(path, state.value).then(
      (r) => setText(r.text),
      (e: unknown) => setError(said(e)),
    );
  }, []);
  return [text, error];
}

function Share() {
  const [text, error] = useText("share");
  return (
    <Dialog title="Share what is on the page" onClose={close}>
      <p>
        This text is everything on the page: policies and request, with all their values. <code>usher console --open TEXT</code> opens it, and so does Open.
      </p>
      <Failed error={error} />
      <textarea rows={6} readOnly autofocus aria-label="Text to share" value={text} onFocus={(e) => e.currentTarget.select()} />
      <p class="actions">
        <Copy text={text} label="Copy the text" />
        <button type="button" onClick={() => download("usher-console.txt", text)}>
          <Icon name="import" /> Download
        </button>
      </p>
    </Dialog>
  );
}

function Open() {
  const [text, setText] = useState("");
  const [error, setError] = useState("");
  const open = (t: string) =>
    void post<State>("open", { text: t }).then(
      (s) => {
        remember();
        opened.value = null;
        load(s);
        close();
      },
      (e: unknown) => setError(said(e)),
    );
  return (
    <Dialog title="Open what somebody shared" onClose={close}>
      <label>
        <span>Paste the text</span>
        <textarea rows={6} autofocus spellcheck={false} value={text} onInput={(e) => setText(e.currentTarget.value)} />
      </label>
      <label>
        <span>Or choose the file</span>
        <input
          type="file"
          onChange={(e) => {
            const file = e.currentTarget.files?.[0];
            if (file && file.size <= 1 << 20) {
              void file.text().then(open);
            } else if (file) {
              setError("a file of more than 1 MiB is none that was shared");
            }
          }}
        />
      </label>
      <Failed error={error} />
      <p class="actions">
        <button type="button" class="primary" disabled={text.trim() === ""} onClick={() => open(text)}>
          Open
        </button>
      </p>
    </Dialog>
  );
}

function Case() {
  const [text, error] = useText("case");
  const [path, setPath] = useState(casesFile.value || "cases/new.yaml");
  const [overwrite, setOverwrite] = useState(false);
  const [saved, setSaved] = useState("");
  const [failed, setFailed] = useState("");
  const save = () =>
    void post<{ version?: string }>("save", { path, text, overwrite, version: overwrite ? (versions.get(path) ?? "") : "" }).then(
      (r) => {
        versions.set(path, r.version ?? "");
        setSaved(path);
        setFailed("");
        void refresh().catch(() => {});
      },
      (e: unknown) => {
        setSaved("");
        setFailed(said(e));
      },
    );
  return (
    <Dialog title="Save as a case" onClose={close}>
      <p>The request, with what was decided about it. usher test runs it.</p>
      <Failed error={error} />
      <pre class="text" role="region" tabIndex={0} aria-label="Case">
        {text}
      </pre>
      {info.value?.writable ? (
        <form
          class="save"
          onSubmit={(e) => {
            e.preventDefault();
            save();
          }}
        >
          <label>
            <span>File below {info.value.folder}</span>
            <input type="text" value={path} spellcheck={false} onInput={(e) => setPath(e.currentTarget.value)} />
          </label>
          <label class="check">
            <input type="checkbox" checked={overwrite} onChange={(e) => setOverwrite(e.currentTarget.checked)} />
            <span>Overwrite</span>
          </label>
          <button type="submit" disabled={text === ""}>
            <Icon name="save" /> Save
          </button>
        </form>
      ) : null}
      <Failed error={failed} />
      <p role="status">{saved ? `Saved as ${saved}.` : ""}</p>
      <p class="actions">
        <button
          type="button"
          class="primary"
          autofocus
          disabled={text === ""}
          onClick={() => {
            cases.value = text;
            casesFile.value = "";
            requestTab.value = "cases";
            resultTab.value = "cases";
            pane.value = "result";
            close();
          }}
        >
          <Icon name="test" /> Run it here
        </button>
        <Copy text={text} />
        <button type="button" disabled={text === ""} onClick={() => download("case.yaml", text)}>
          <Icon name="import" /> Download
        </button>
      </p>
    </Dialog>
  );
}

const mod = /Mac|iPhone|iPad/.test(navigator.userAgent) ? "⌘" : "Ctrl";

const keys: [string[], string][] = [
  [["F6"], "next pane; with Shift, the one before"],
  [[mod, "K"], "examples and files"],
  [[mod, "Enter"], "run the cases"],
  [[mod, "S"], "save as a case"],
  [[mod, "Shift", "Y"], "why was I refused?"],
  [["?"], "this list, outside of texts"],
  [["1"], "to 4: playground, policies, violations, live"],
  [["/"], "search, or filter"],
  [["g"], "go to the rows: arrows, Page, Home and End move, Enter opens, Esc closes, ← and → close and open groups"],
  [["r"], "load again; pause and go on, in the live view"],
  [["Esc", "Tab"], "leave an editor"],
  [[mod, "Space"], "complete"],
  [[mod, "F"], "search in an editor"],
  [["F8"], "next problem in an editor"],
  [[mod, "Shift", "M"], "all problems of an editor"],
  [["Shift", "Alt", "F"], "format a text: indentation, and nothing else"],
  [[mod, "."], "quick fix of the problem on this line"],
];

function Help() {
  return (
    <Dialog title="Keyboard" onClose={close}>
      <dl class="keys">
        {keys.map(([k, what]) => (
          <div key={what}>
            <dt>
              {k.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <p class="quiet">
        Usher {info.value?.version}. <a href="/api/v1/openapi.json">The API</a>. <a href="/assets/licenses.txt">Licenses of what the page is made of</a>.
      </p>
    </Dialog>
  );
}

const dialogs = { examples: Examples, import: Import, why: Why, share: Share, open: Open, case: Case, help: Help };

export function Dialogs() {
  const name = dialog.value;
  if (name === null) {
    return null;
  }
  const Shown = dialogs[name];
  return <Shown key={name} />;
}
