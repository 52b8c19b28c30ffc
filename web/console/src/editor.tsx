// A text editor for YAML. That of policies asks the server what is wrong, what can be written, and what is there.

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, foldGutter, foldKeymap, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { forEachDiagnostic, forceLinting, lintGutter, lintKeymap, linter, setDiagnostics } from "@codemirror/lint";
import type { Diagnostic as Shown } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, RangeSet, StateEffect, StateField } from "@codemirror/state";
import type { Extension, Text } from "@codemirror/state";
import {
  Decoration,
  EditorView,
  GutterMarker,
  ViewPlugin,
  drawSelection,
  gutter,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  hoverTooltip,
  keymap,
  lineNumbers,
  placeholder,
  showDialog,
} from "@codemirror/view";
import type { DecorationSet, ViewUpdate } from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";
import { effect } from "@preact/signals";
import type { Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { latest, post } from "./api";
import type { Coverage, Diagnostic, Edit, Item, Position } from "./api";
import { connection, coverage, said } from "./model";
import { dark } from "./theme";

const nonce = document.querySelector<HTMLMetaElement>('meta[name="nonce"]')?.content ?? "";

const appearance = (isDark: boolean): Extension => EditorView.theme({}, { dark: isDark });

/** offset clamps: the text may have changed since the server answered. */
function offset(doc: Text, p: Position): number {
  const line = doc.line(Math.min(Math.max(p.line, 0) + 1, doc.lines));
  return Math.min(line.from + Math.max(p.character, 0), line.to);
}

function position(doc: Text, at: number): Position {
  const line = doc.lineAt(at);
  return { line: line.number - 1, character: at - line.from };
}

const changes = (doc: Text, edits: Edit[]) => edits.map((e) => ({ from: offset(doc, e.start), to: offset(doc, e.end), insert: e.text }));

const diagnose = latest<{ diagnostics?: Diagnostic[] | null }>("diagnose");

async function lint(view: EditorView): Promise<Shown[]> {
  const doc = view.state.doc;
  if (doc.toString().trim() === "") {
    return [];
  }
  let found: Diagnostic[];
  try {
    found = (await diagnose({ text: doc.toString() })).diagnostics ?? [];
  } catch {
    return [];
  }
  return found.map((d) => {
    const from = offset(doc, d.start);
    return {
      from,
      to: Math.max(from, offset(doc, d.end)),
      severity: d.severity,
      message: d.message,
      actions: (d.fixes ?? []).map((fix) => ({
        name: fix.title,
        apply: (v: EditorView) =>
          v.dispatch({
            changes: changes(v.state.doc, fix.edits),
          }),
      })),
    };
  });
}

/** fix applies the first fix of a problem on the line of the cursor. */
function fix(view: EditorView): boolean {
  const line = view.state.doc.lineAt(view.state.selection.main.head);
  let apply: (() => void) | undefined;
  forEachDiagnostic(view.state, (d, from, to) => {
    const action = d.actions?.[0];
    if (action && from <= line.to && to >= line.from) {
      apply ??= () => action.apply(view, from, to);
    }
  });
  apply?.();
  return true;
}

/** format indents the text, unless it is changed meanwhile. What cannot be formatted stays, and the reason is shown. */
function format(view: EditorView): boolean {
  const doc = view.state.doc;
  if (view.state.readOnly || doc.toString().trim() === "") {
    return true;
  }
  const because = (reason: string) => {
    showDialog(view, { label: reason, class: "cm-said", focus: true });
    view.dispatch({ effects: EditorView.announce.of(reason) });
  };
  void post<{ edits?: Edit[] | null }>("format", { text: doc.toString() }).then(
    ({ edits }) => {
      if (view.state.doc.eq(doc)) {
        view.dispatch({ changes: changes(doc, edits ?? []), userEvent: "format" });
      }
    },
    (error: unknown) => because(said(error)),
  );
  return true;
}

async function complete(context: CompletionContext): Promise<CompletionResult | null> {
  const doc = context.state.doc;
  const abort = new AbortController();
  context.addEventListener("abort", () => abort.abort());
  let items: Item[];
  try {
    items = (await post<{ items?: Item[] | null }>("complete", { text: doc.toString(), ...position(doc, context.pos) }, abort.signal)).items ?? [];
  } catch {
    return null;
  }
  if (items.length === 0) {
    return null;
  }
  const from = Math.min(...items.map((i) => offset(doc, i.start)));
  return {
    from,
    validFor: /^[\w.\-/]*$/,
    options: items.map((item): Completion => {
      const start = offset(doc, item.start);
      const rest = offset(doc, item.end) - context.pos;
      return {
        label: item.label,
        detail: item.detail ?? "",
        info: item.documentation ? () => prose(item.documentation ?? "") : undefined,
        apply: (view, _, __, to) => {
          const insert = item.insert ?? item.label;
          view.dispatch({
            changes: { from: start, to: Math.min(to + Math.max(rest, 0), view.state.doc.length), insert },
            selection: { anchor: start + insert.length },
            userEvent: "input.complete",
          });
        },
      } as Completion;
    }),
  };
}

const hover = hoverTooltip(async (view, at) => {
  const doc = view.state.doc;
  try {
    const { text } = await post<{ text?: string }>("hover", { text: doc.toString(), ...position(doc, at) });
    return text ? { pos: at, above: true, create: () => ({ dom: prose(text) }) } : null;
  } catch {
    return null;
  }
});

/** prose shows Markdown's fences and code as elements, and everything else as the text that it is. */
function prose(text: string): HTMLElement {
  const box = document.createElement("div");
  box.className = "prose";
  text.split(/^```.*$/m).forEach((part, i) => {
    if (i % 2 === 1) {
      box.appendChild(document.createElement("pre")).textContent = part.trim();
      return;
    }
    part.split(/\n\s*\n/).forEach((paragraph) => {
      if (paragraph.trim() === "") {
        return;
      }
      const p = box.appendChild(document.createElement("p"));
      paragraph.trim().split("`").forEach((run, j) => {
        if (j % 2 === 1) {
          p.appendChild(document.createElement("code")).textContent = run;
        } else {
          p.append(run.replaceAll("**", ""));
        }
      });
    });
  });
  return box;
}

class Hits extends GutterMarker {
  constructor(readonly hits: number) {
    super();
  }
  override eq(other: Hits): boolean {
    return this.hits === other.hits;
  }
  override toDOM(): Node {
    const mark = document.createElement("span");
    mark.className = this.hits > 0 ? "hits" : "hits none";
    mark.textContent = this.hits > 0 ? (this.hits > 99 ? "99+" : `${this.hits}×`) : "0";
    mark.title = this.hits > 0 ? `decided ${this.hits} times in the cases` : "no case reaches this line";
    return mark;
  }
}

const setCoverage = StateEffect.define<Coverage[]>();

const covered = StateField.define<RangeSet<GutterMarker>>({
  create: () => RangeSet.empty,
  update(set, tr) {
    let next = set.map(tr.changes);
    for (const e of tr.effects) {
      if (e.is(setCoverage)) {
        const byLine = new Map<number, number>();
        e.value.forEach((c) => byLine.set(c.line, Math.max(c.hits, byLine.get(c.line) ?? 0)));
        const lines = [...byLine].filter(([n]) => n >= 1 && n <= tr.state.doc.lines).sort(([a], [b]) => a - b);
        next = RangeSet.of(lines.map(([n, hits]) => new Hits(hits).range(tr.state.doc.line(n).from)));
      }
    }
    return next;
  },
});

const coverageGutter: Extension = [
  covered,
  gutter({ class: "cm-coverage", markers: (view) => view.state.field(covered) }),
];

const assisted: Extension = [
  coverageGutter,
  linter(lint, { delay: 150 }),
  lintGutter(),
  keymap.of([{ key: "Mod-.", run: fix }]),
  hover,
  autocompletion({ override: [complete], icons: false }),
];

// Lines that wrap go on below where they begin, two columns in. Style attributes are refused: there is a class for each.
const deepest = 40;

const hanging: Extension = [
  EditorView.baseTheme(
    Object.fromEntries(
      Array.from({ length: deepest + 1 }, (_, n) => [`.cm-hang-${n}`, { paddingLeft: `calc(6px + ${n + 2}ch) !important`, textIndent: `-${n + 2}ch` }]),
    ),
  ),
  ViewPlugin.define(
    (view) => ({
      marks: hang(view),
      update(u: ViewUpdate) {
        if (u.docChanged || u.viewportChanged) {
          this.marks = hang(u.view);
        }
      },
    }),
    { decorations: (plugin) => plugin.marks },
  ),
];

function hang(view: EditorView): DecorationSet {
  const marks = [];
  for (const { from, to } of view.visibleRanges) {
    for (let at = from; at <= to; ) {
      const line = view.state.doc.lineAt(at);
      const indent = Math.min(line.text.search(/[^ ]|$/), deepest);
      marks.push(Decoration.line({ class: `cm-hang-${indent}` }).range(line.from));
      at = line.to + 1;
    }
  }
  return Decoration.set(marks);
}

/** A change that is none of the user's: a text that was opened. */
export interface EditorProps {
  text: Signal<string>;
  label: string;
  hint: string;
  assist?: boolean;
  readOnly?: boolean;
  /** problems of a text that is not checked here, with lines and columns from 1. */
  problems?: Signal<{ message: string; line: number; column: number; severity: string }[]>;
}

type Placed = NonNullable<EditorProps["problems"]>["value"];

function placed(doc: Text, problems: Placed): Shown[] {
  return problems
    .filter((p) => p.line >= 1 && p.line <= doc.lines)
    .map((p) => {
      const line = doc.line(p.line);
      const from = Math.min(line.from + Math.max(p.column - 1, 0), line.to);
      return { from, to: line.to, severity: p.severity === "warning" || p.severity === "info" ? p.severity : "error", message: p.message } as Shown;
    });
}

/** focusers move the focus to an editor, and the cursor to a line (1-based), if it is given. */
export const focusers = new Map<string, (line?: number) => void>();

export function Editor({ text, label, hint, assist, readOnly, problems }: EditorProps) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const look = new Compartment();
    const view = new EditorView({
      parent: host.current!,
      state: EditorState.create({
        doc: text.peek(),
        extensions: [
          EditorView.cspNonce.of(nonce),
          look.of(appearance(dark.peek())),
          assist ? assisted : [],
          problems ? lintGutter() : [],
          lineNumbers(),
          foldGutter({ openText: "▾", closedText: "▸" }),
          highlightSpecialChars(),
          history(),
          drawSelection(),
          indentOnInput(),
          bracketMatching(),
          closeBrackets(),
          highlightActiveLine(),
          highlightActiveLineGutter(),
          highlightSelectionMatches(),
          search({ top: true }),
          yaml(),
          syntaxHighlighting(classHighlighter),
          EditorView.lineWrapping,
          hanging,
          EditorState.tabSize.of(2),
          EditorState.readOnly.of(readOnly ?? false),
          placeholder(hint),
          EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false", autocapitalize: "off", tabindex: "0" }),
          keymap.of([{ key: "Shift-Alt-f", run: format }, ...closeBracketsKeymap, ...defaultKeymap.filter((k) => k.key !== "Mod-Enter"), ...searchKeymap, ...historyKeymap, ...foldKeymap, ...completionKeymap, ...lintKeymap, indentWithTab]),
          EditorView.updateListener.of((u) => {
            if (u.docChanged) {
              text.value = u.state.doc.toString();
            }
          }),
        ],
      }),
    });
    focusers.set(label, (line) => {
      if (line !== undefined && line >= 1 && line <= view.state.doc.lines) {
        const at = view.state.doc.line(line).from;
        view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "center" }) });
      }
      view.focus();
    });
    const stops = [
      effect(() => {
        const now = text.value;
        if (now !== view.state.doc.toString()) {
          view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: now }, selection: { anchor: 0 }, scrollIntoView: true });
        }
      }),
      effect(() => view.dispatch({ effects: look.reconfigure(appearance(dark.value)) })),
    ];
    if (assist) {
      stops.push(
        effect(() => view.dispatch({ effects: setCoverage.of(coverage.value) })),
        effect(() => {
          if (connection.value === "ok") {
            forceLinting(view);
          }
        }),
      );
    }
    if (problems) {
      stops.push(effect(() => view.dispatch(setDiagnostics(view.state, placed(view.state.doc, problems.value)))));
    }
    return () => {
      stops.forEach((stop) => stop());
      focusers.delete(label);
      view.destroy();
    };
  }, [text]);
  return <div class="editor" ref={host} />;
}
