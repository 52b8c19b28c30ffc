// A table of any length, of which the browser has only the rows that are seen.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { signal } from "@preact/signals";

export interface Column {
  name: string;
  title: string;
  numeric?: boolean;
  sortable?: boolean;
}

export interface RowsProps<T> {
  id: string;
  label: string;
  columns: Column[];
  rows: T[];
  keyOf: (row: T) => string;
  /** cells has one entry for each column; or a single one, which spans them all. */
  cells: (row: T) => ComponentChildren[];
  sortOf?: (row: T) => string;
  selected?: string;
  sort?: { by: string; down: boolean };
  onSort?: (by: string) => void;
  onOpen: (row: T) => void;
  /** onFold opens or closes a group of rows, and says whether the row is one. */
  onFold?: (row: T, open: boolean) => boolean;
  /** onTop says whether rows may come above: nobody has scrolled, or gone on to another row. */
  onTop?: (top: boolean) => void;
  /** begin is another number when the first row is to be shown. */
  begin?: number;
}

const narrow = matchMedia("(max-width: 760px)");
const tall = signal(narrow.matches);
narrow.addEventListener("change", (e) => (tall.value = e.matches));

/** The heights of rows, which app.css has too. */
const height = () => (tall.value ? 64 : 36);
const beyond = 6;

export function Rows<T>(props: RowsProps<T>) {
  const scroller = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState({ top: 0, size: 600 });
  const [at, setAt] = useState(-1);
  const h = height();
  const { rows } = props;
  const active = Math.min(at, rows.length - 1);
  useLayoutEffect(() => {
    const box = scroller.current!;
    const look = () => {
      setSeen((s) => (s.top === box.scrollTop && s.size === box.clientHeight ? s : { top: box.scrollTop, size: box.clientHeight }));
    };
    look();
    box.addEventListener("scroll", look, { passive: true });
    const sizes = new ResizeObserver(look);
    sizes.observe(box);
    return () => {
      box.removeEventListener("scroll", look);
      sizes.disconnect();
    };
  }, []);
  useEffect(() => props.onTop?.(seen.top < 4 && at < 1), [seen.top < 4, at < 1]);
  useEffect(() => {
    if (props.begin) {
      scroller.current!.scrollTop = 0;
      setAt(-1);
    }
  }, [props.begin]);
  useEffect(() => {
    const found = props.selected ? rows.findIndex((r) => props.keyOf(r) === props.selected) : -1;
    if (found >= 0) {
      setAt(found);
    }
  }, [props.selected, rows]);
  const show = (to: number) => {
    const box = scroller.current!;
    const head = box.querySelector<HTMLElement>(".rows-head")?.offsetHeight ?? 0;
    if (to * h < box.scrollTop) {
      box.scrollTop = to * h;
    } else if ((to + 1) * h + head > box.scrollTop + box.clientHeight) {
      box.scrollTop = (to + 1) * h + head - box.clientHeight;
    }
    setAt(to);
  };
  const keyed = (e: KeyboardEvent) => {
    if (e.target !== scroller.current || rows.length === 0 || e.ctrlKey || e.metaKey || e.altKey) {
      return;
    }
    const page = Math.max(1, Math.floor(seen.size / h) - 2);
    const to = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page, Home: 0, End: rows.length - 1 }[e.key];
    const row = rows[active];
    if (to !== undefined) {
      show(Math.max(0, Math.min(to, rows.length - 1)));
    } else if ((e.key === "Enter" || e.key === " ") && row !== undefined) {
      props.onOpen(row);
    } else if ((e.key === "ArrowRight" || e.key === "ArrowLeft") && row !== undefined) {
      props.onFold?.(row, e.key === "ArrowRight");
    } else {
      return;
    }
    e.preventDefault();
  };
  const first = Math.max(0, Math.min(Math.floor(seen.top / h) - beyond, rows.length - 1));
  const last = Math.min(rows.length, Math.ceil((seen.top + seen.size) / h) + beyond);
  return (
    <div
      class={"rows " + props.id}
      id={props.id}
      role="grid"
      tabIndex={0}
      aria-label={props.label}
      aria-rowcount={rows.length + 1}
      aria-activedescendant={active >= first && active < last ? `${props.id}-${active}` : undefined}
      ref={scroller}
      onKeyDown={keyed}
      onFocus={(e) => e.target === e.currentTarget && at < 0 && setAt(0)}
    >
      <div class="rows-head" role="row" aria-rowindex={1}>
        {props.columns.map((c) => (
          <Head key={c.name} c={c} sort={props.sort} onSort={props.onSort} />
        ))}
      </div>
      <div class="rows-all" role="rowgroup" style={{ height: `${rows.length * h}px` }}>
        {rows.slice(first, last).map((row, i) => {
          const n = first + i;
          const key = props.keyOf(row);
          const cells = props.cells(row);
          const spans = cells.length === 1 && props.columns.length > 1;
          return (
            <div
              key={n}
              id={`${props.id}-${n}`}
              role="row"
              aria-rowindex={n + 2}
              aria-selected={key === props.selected}
              class={`row-line ${props.sortOf?.(row) ?? ""}${n === active ? " active" : ""}${spans ? " group" : ""}`}
              style={{ top: `${n * h}px` }}
              onClick={(e) => {
                if (!(e.target as HTMLElement).closest("a") && !getSelection()?.toString()) {
                  setAt(n);
                  props.onOpen(row);
                }
              }}
            >
              {cells.map((cell, j) => (
                <div key={j} role="gridcell" aria-colspan={spans ? props.columns.length : undefined} class={"cell c-" + (spans ? "all" : (props.columns[j]?.name ?? ""))}>
                  {cell}
                </div>
              ))}
            </div>
          );
        })}
      </div>
    </div>
  );
}

function Head({ c, sort, onSort }: { c: Column; sort?: { by: string; down: boolean } | undefined; onSort?: ((by: string) => void) | undefined }) {
  const sorted = sort?.by === c.name;
  return (
    <div role="columnheader" class={"cell c-" + c.name} aria-sort={sorted ? (sort.down ? "descending" : "ascending") : undefined}>
      {c.sortable && onSort ? (
        <button type="button" class="head-sort" onClick={() => onSort(c.name)}>
          {c.title}
          {sorted ? <span aria-hidden="true">{sort.down ? "↓" : "↑"}</span> : null}
        </button>
      ) : (
        c.title
      )}
    </div>
  );
}
