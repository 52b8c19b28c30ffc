// What several places of the page are made of.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

const paths: Record<string, string> = {
  allowed: "M3.5 8.5l3 3 6-7",
  denied: "M4.5 4.5l7 7M11.5 4.5l-7 7",
  warned: "M8 3.5v5.5M8 12v.5",
  changed: "M3 5.5h8.5M9 3l2.5 2.5L9 8M13 10.5H4.5M7 8l-2.5 2.5L7 13",
  book: "M3 3.5h4a1.5 1.5 0 0 1 1 .5 1.5 1.5 0 0 1 1-.5h4v9H9.5a1.5 1.5 0 0 0-1.5 1 1.5 1.5 0 0 0-1.5-1H3zM8 4v9",
  why: "M6 6a2 2 0 1 1 3 1.8c-.7.4-1 .8-1 1.7M8 12v.5M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8",
  import: "M8 2.5v7M5 7l3 3 3-3M2.5 11v2.5h11V11",
  test: "M4.5 3l8 5-8 5z",
  save: "M3 2.5h8l2 2v9H3zM5.5 2.5v3.5h4.5V2.5M5.5 13.5V9.5h5v4",
  share: "M10.5 4.5L5.5 7.5M5.5 8.5l5 3M12 2.5a1.5 1.5 0 1 1 0 3 1.5 1.5 0 0 1 0-3M4 6.5a1.5 1.5 0 1 1 0 3 1.5 1.5 0 0 1 0-3M12 10.5a1.5 1.5 0 1 1 0 3 1.5 1.5 0 0 1 0-3",
  open: "M2.5 12.5v-9h4l1.5 2h5.5v7z",
  light: "M8 5.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6M8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M12.6 3.4l-.9.9M4.3 11.7l-.9.9",
  dark: "M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5z",
  system: "M2.5 3h11v8h-11zM6 13.5h4",
  help: "M2 4.5h12v7H2zM4.5 7h.5M7.8 7h.5M11 7h.5M5 9.5h6",
  close: "M4 4l8 8M12 4l-8 8",
  again: "M13 8a5 5 0 1 1-1.6-3.7M13 2.5v3h-3",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  back: "M9.5 3.5L5 8l4.5 4.5",
  filter: "M2.5 4h11M4.5 8h7M6.5 12h3",
  copy: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z",
};

export function Icon({ name }: { name: string }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={paths[name] ?? ""} />
    </svg>
  );
}

export function Dialog(props: { title: string; wide?: boolean; onClose: () => void; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    ref.current?.showModal();
  }, []);
  return (
    <dialog
      ref={ref}
      class={props.wide ? "wide" : ""}
      aria-label={props.title}
      onClose={props.onClose}
      onClick={(e) => {
        if (e.target === ref.current) {
          ref.current?.close();
        }
      }}
    >
      <div class="dialog">
        <header>
          <h2>{props.title}</h2>
          <button type="button" class="plain" aria-label="Close" onClick={() => ref.current?.close()}>
            <Icon name="close" />
          </button>
        </header>
        {props.children}
      </div>
    </dialog>
  );
}

export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const [copied, setCopied] = useState("");
  return (
    <button
      type="button"
      onClick={() => {
        navigator.clipboard.writeText(text).then(
          () => setCopied("Copied"),
          () => setCopied("The browser refuses: select the text"),
        );
        setTimeout(() => setCopied(""), 2000);
      }}
    >
      <Icon name="copy" />
      <span role="status">{copied || label}</span>
    </button>
  );
}

export function download(name: string, text: string, type = "application/yaml"): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Tabs are a tablist: arrow keys move in it, Tab leaves it. */
export function Tabs<T extends string>(props: {
  label: string;
  id: string;
  tabs: { id: T; title: string; mark?: boolean; note?: string }[];
  value: T;
  onSelect: (id: T) => void;
}) {
  const ref = useRef<HTMLDivElement>(null);
  const move = (e: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (step === undefined) {
      return;
    }
    const at = props.tabs.findIndex((t) => t.id === props.value);
    const next = (at + step + props.tabs.length) % props.tabs.length;
    props.onSelect(props.tabs[next]!.id);
    ref.current?.querySelectorAll<HTMLButtonElement>("[role=tab]")[next]?.focus();
    e.preventDefault();
  };
  return (
    <div class="tabs" role="tablist" aria-label={props.label} ref={ref} onKeyDown={move}>
      {props.tabs.map((t) => (
        <button
          key={t.id}
          type="button"
          role="tab"
          id={`${props.id}-tab-${t.id}`}
          aria-selected={t.id === props.value}
          aria-controls={`${props.id}-panel`}
          tabIndex={t.id === props.value ? 0 : -1}
          onClick={() => props.onSelect(t.id)}
        >
          {t.title}
          {t.note ? <span class="note"> {t.note}</span> : null}
          {t.mark ? (
            <span class="dot">
              <span class="hidden"> (not empty)</span>
            </span>
          ) : null}
        </button>
      ))}
    </div>
  );
}
