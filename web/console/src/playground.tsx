// Where policies are written and tried: policies, a request, and what is decided.

import { useEffect } from "preact/hooks";
import { dialog, pasted } from "./dialogs";
import type { Name } from "./dialogs";
import { Editor, focusers } from "./editor";
import { before, decision, failure, opened, pane, policies, requestTab, resultTab, runTests, undo } from "./model";
import type { Pane } from "./model";
import { Icon } from "./parts";
import { Request } from "./request";
import { Result, sortOf } from "./result";
import { route } from "./route";

export const open = (name: Name) => {
  pasted.value = "";
  dialog.value = name;
};

function test(): void {
  resultTab.value = "cases";
  pane.value = "result";
  void runTests();
}

const actions: { name: string; icon: string; title: string; run: () => void; primary?: boolean }[] = [
  { name: "examples", icon: "book", title: "Examples and files", run: () => open("examples"), primary: true },
  { name: "why", icon: "why", title: "Why?", run: () => open("why") },
  { name: "import", icon: "import", title: "Import", run: () => open("import") },
  { name: "test", icon: "test", title: "Test", run: test },
  { name: "case", icon: "save", title: "Save as a case", run: () => open("case") },
  { name: "share", icon: "share", title: "Share", run: () => open("share") },
  { name: "open", icon: "open", title: "Open", run: () => open("open") },
];

function Hint() {
  const text = policies.value;
  const engine = /^\s*apiVersion:\s*["']?(policies\.)?kyverno\.io\//m.test(text) ? "Kyverno" : /^\s*apiVersion:\s*["']?(templates|constraints)\.gatekeeper\.sh\//m.test(text) ? "Gatekeeper" : "";
  return engine ? (
    <p class="strip" role="status">
      <span>Policies of {engine} are imported before they decide.</span>
      <button
        type="button"
        class="link"
        onClick={() => {
          pasted.value = text;
          dialog.value = "import";
        }}
      >
        Import them
      </button>
    </p>
  ) : null;
}

/** What was replaced can be had again. */
function Undo() {
  return before.value ? (
    <p class="strip" role="status">
      <span>What was on the page is replaced.</span>
      <button type="button" class="link" id="undo" onClick={undo}>
        Undo
      </button>
      <button type="button" class="link" onClick={() => (before.value = null)}>
        Keep it
      </button>
    </p>
  ) : null;
}

function Policies() {
  return (
    <section id="policies" class={pane.value === "policies" ? "pane shown" : "pane"} aria-label="Policies">
      <div class="head">
        <h2>Policies</h2>
        {opened.value ? (
          <p class="file" title={opened.value.title}>
            {opened.value.title}
          </p>
        ) : null}
      </div>
      <Hint />
      <Undo />
      <div class="body edit">
        <Editor text={policies} label="Policies" hint={"Policies of any kind, as YAML.\nCtrl-Space lists what can be written."} assist />
      </div>
    </section>
  );
}

export const panes: Pane[] = ["policies", "request", "result"];

/** Narrow screens show one pane at a time. */
function Switch() {
  const d = decision.value;
  return (
    <nav class="switch" aria-label="Panes">
      {panes.map((p) => (
        <button key={p} type="button" aria-pressed={pane.value === p} onClick={() => (pane.value = p)}>
          {p.charAt(0).toUpperCase() + p.slice(1)}
          {p === "result" && d && !failure.value ? (
            <span class={"dot " + sortOf(d.verdict).sort}>
              <span class="hidden">: {sortOf(d.verdict).title}</span>
            </span>
          ) : null}
        </button>
      ))}
    </nav>
  );
}

export function focusPane(p: Pane): void {
  pane.value = p;
  const labels = { object: "Object", old: "Old object", facts: "Facts", authorization: "Authorization", cases: "Cases", user: "" };
  setTimeout(() => {
    const editor = p === "policies" ? "Policies" : p === "request" ? labels[requestTab.value] : "";
    const focus = focusers.get(editor);
    if (focus) {
      focus();
    } else {
      document.querySelector<HTMLElement>(p === "result" ? "#result-panel" : "#request-panel select")?.focus();
    }
  }, 0);
}

function shortcut(e: KeyboardEvent): void {
  if (dialog.value !== null || route.peek().view !== "playground") {
    return;
  }
  const typing = (e.target as Element | null)?.closest?.("input, textarea, select, [contenteditable=true]");
  const mod = e.ctrlKey || e.metaKey;
  const key = e.key.toLowerCase();
  let done = true;
  if (e.key === "F6") {
    const inside = panes.findIndex((p) => document.getElementById(p)?.contains(document.activeElement));
    focusPane(panes[(inside + (e.shiftKey ? panes.length - 1 : 1) + (inside < 0 && e.shiftKey ? 1 : 0)) % panes.length]!);
  } else if (mod && key === "k" && !e.shiftKey) {
    open("examples");
  } else if (mod && e.key === "Enter") {
    test();
  } else if (mod && key === "s") {
    open("case");
  } else if (mod && e.shiftKey && key === "y") {
    open("why");
  } else if (e.key === "?" && !typing) {
    open("help");
  } else {
    done = false;
  }
  if (done) {
    e.preventDefault();
    e.stopPropagation();
  }
}

export function Actions() {
  return (
    <nav aria-label="Actions" class="toolbar bar">
      {actions.map((a) => (
        <button key={a.name} type="button" id={`do-${a.name}`} class={a.primary ? "primary" : ""} onClick={a.run}>
          <Icon name={a.icon} />
          <span>{a.title}</span>
        </button>
      ))}
    </nav>
  );
}

/** Playground stays where it is while another view is shown: editors keep what can be undone. */
export function Playground({ shown }: { shown: boolean }) {
  useEffect(() => {
    // Before the editors, which have Ctrl-K for something else.
    addEventListener("keydown", shortcut, { capture: true });
    return () => removeEventListener("keydown", shortcut, { capture: true });
  }, []);
  return (
    <div class="playground" hidden={!shown}>
      <Actions />
      <Switch />
      <div class="panes">
        <Policies />
        <Request />
        <Result
          onExamples={() => open("examples")}
          onFiles={() => {
            pasted.value = "folder";
            dialog.value = "examples";
          }}
          onWhy={() => open("why")}
        />
      </div>
    </div>
  );
}
