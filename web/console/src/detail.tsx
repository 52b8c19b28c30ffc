// What is known of a row, beside the rows; on narrow screens in their place.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Icon } from "./parts";

export function Detail({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }) {
  const ref = useRef<HTMLElement>(null);
  useEffect(() => ref.current?.focus(), [title]);
  return (
    <aside
      id="detail"
      class="detail"
      aria-label={title}
      tabIndex={-1}
      ref={ref}
      onKeyDown={(e) => {
        if (e.key === "Escape") {
          onClose();
          e.stopPropagation();
        }
      }}
    >
      <header>
        <h2>{title}</h2>
        <button type="button" class="plain" aria-label="Close" title="Close (Esc)" onClick={onClose}>
          <Icon name="close" />
        </button>
      </header>
      <div class="scroll" tabIndex={0} role="region" aria-label={"About " + title}>
        {children}
      </div>
    </aside>
  );
}

/** useDetail keeps which row is open, also while the rows are loaded again, and gives the focus back. */
export function useDetail<T>(rows: T[], keyOf: (row: T) => string, grid: string) {
  const [open, setOpen] = useState<T | null>(null);
  const key = open === null ? "" : keyOf(open);
  const now = open === null ? null : (rows.find((r) => keyOf(r) === key) ?? open);
  return {
    row: now,
    key,
    open: (row: T) => setOpen(row),
    close: () => {
      setOpen(null);
      setTimeout(() => document.getElementById(grid)?.focus(), 0);
    },
  };
}
