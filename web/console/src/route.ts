// Which view is shown, and with which filters: the fragment of the address, so that a view can be kept as a bookmark.

import { effect, signal } from "@preact/signals";

export type View = "playground" | "policies" | "policy" | "violations" | "live";

export interface Route {
  view: View;
  params: URLSearchParams;
}

export type Params = Record<string, string | undefined>;

const views: View[] = ["playground", "policies", "policy", "violations", "live"];

function parse(fragment: string): Route {
  const [name, query] = fragment.replace(/^#\/?/, "").split("?");
  return { view: views.find((v) => v === name) ?? "playground", params: new URLSearchParams(query ?? "") };
}

export const route = signal<Route>(parse(location.hash));

/** The namespace parameter that was chosen last, which goes along from view to view: "*" for all, "" for none chosen. */
export const where = signal("");

effect(() => {
  const { view, params } = route.value;
  if (view !== "playground" && view !== "policy") {
    where.value = params.get("namespace") ?? "";
  }
});

addEventListener("hashchange", () => (route.value = parse(location.hash)));

export function href(view: View, params: Params = {}): string {
  const goes = view === "policies" || view === "violations" || view === "live" ? { namespace: where.peek(), ...params } : params;
  const query = new URLSearchParams(Object.entries(goes).filter((e): e is [string, string] => !!e[1])).toString();
  return `#/${view === "playground" ? "" : view}${query ? "?" + query : ""}`;
}

export function go(view: View, params: Params = {}): void {
  location.hash = href(view, params);
}

/** filter changes parameters of the view that is shown. It makes no step in the history, since typing makes many. */
export function filter(params: Params): void {
  const now = { ...Object.fromEntries(route.value.params), ...params };
  history.replaceState(null, "", href(route.value.view, now));
  route.value = parse(location.hash);
}

export function param(name: string): string {
  return route.value.params.get(name) ?? "";
}

/** list is a parameter with several values. */
export function list(name: string): string[] {
  const text = param(name);
  return text === "" ? [] : text.split(",").map(decodeURIComponent);
}

export function joined(values: string[]): string {
  return values.map(encodeURIComponent).join(",");
}
