// Filters by what rows have, with how many there are of each.

import { useMemo, useState } from "preact/hooks";
import { count } from "./looks";
import { Icon } from "./parts";
import { filter, joined, list } from "./route";

export interface Facet<T> {
  name: string;
  title: string;
  of: (row: T) => string;
  order?: string[];
  /** show is a shorter text for a value. */
  show?: (value: string) => string;
}

const few = 8;

/** choices are the values that are chosen of each facet; none means all. */
export function choices<T>(facets: Facet<T>[]): Record<string, Set<string>> {
  return Object.fromEntries(facets.map((f) => [f.name, new Set(list(f.name))]));
}

function toggle(name: string, value: string): void {
  const now = list(name);
  filter({ [name]: joined(now.includes(value) ? now.filter((v) => v !== value) : [...now, value]) });
}

/** counted counts each facet among the rows that all other facets select. */
function counted<T>(facets: Facet<T>[], items: T[]): Record<string, Map<string, number>> {
  const chosen = choices(facets);
  const all = Object.fromEntries(facets.map((f) => [f.name, new Map<string, number>()]));
  for (const item of items) {
    const out = facets.filter((f) => chosen[f.name]!.size > 0 && !chosen[f.name]!.has(f.of(item)));
    for (const f of facets) {
      const value = f.of(item);
      const map = all[f.name]!;
      map.set(value, (map.get(value) ?? 0) + (out.length === 0 || (out.length === 1 && out[0] === f) ? 1 : 0));
    }
  }
  return all;
}

export function Facets<T>({ facets, items }: { facets: Facet<T>[]; items: T[] }) {
  const key = facets.map((f) => list(f.name).join("\n")).join("\n\n");
  const counts = useMemo(() => counted(facets, items), [items, key]);
  return (
    <>
      {facets.map((f) => {
        const values = counts[f.name]!;
        for (const v of list(f.name)) {
          values.set(v, values.get(v) ?? 0);
        }
        // A facet with one value selects nothing.
        return values.size > 1 || list(f.name).length > 0 ? <One key={f.name} f={f} values={values} /> : null;
      })}
    </>
  );
}

function One<T>({ f, values }: { f: Facet<T>; values: Map<string, number> }) {
  const [all, setAll] = useState(false);
  const chosen = new Set(list(f.name));
  const rank = (v: string) => (f.order?.includes(v) ? f.order.indexOf(v) : (f.order?.length ?? 0));
  const sorted = [...values].sort(([a, n], [b, m]) => (f.order ? rank(a) - rank(b) : m - n) || (a < b ? -1 : 1));
  const shown = all ? sorted : sorted.filter(([v], i) => i < few || chosen.has(v));
  return (
    <fieldset class="facet">
      <legend>{f.title}</legend>
      {shown.slice(0, 200).map(([value, n]) => (
        <label key={value} class={n === 0 ? "zero" : ""}>
          <input type="checkbox" checked={chosen.has(value)} onChange={() => toggle(f.name, value)} />
          <span class="title" title={value}>
            {f.show?.(value) ?? value}
          </span>
          <span class="figure">{count(n)}</span>
        </label>
      ))}
      {sorted.length > shown.length || all ? (
        <button type="button" class="link" onClick={() => setAll(!all)}>
          {all ? "Fewer" : `${count(sorted.length - shown.length)} more`}
        </button>
      ) : null}
    </fieldset>
  );
}

/** Chosen are the values that select, each of which can be taken away. */
export function Chosen<T>({ facets }: { facets: Facet<T>[] }) {
  const all = facets.flatMap((f) => list(f.name).map((value) => ({ f, value })));
  return all.length === 0 ? null : (
    <ul class="chosen" aria-label="Filters in use">
      {all.map(({ f, value }) => (
        <li key={f.name + value}>
          <button type="button" class="chip" title={`${f.title}: ${value}`} onClick={() => toggle(f.name, value)}>
            <span class="title">{f.show?.(value) ?? value}</span>
            <Icon name="close" />
            <span class="hidden">: show all of {f.title}</span>
          </button>
        </li>
      ))}
    </ul>
  );
}
