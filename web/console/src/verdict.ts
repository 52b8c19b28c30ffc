// A decision in few words.

import { place } from "./cluster";
import type { Row } from "./cluster";

export function verdictOf(r: Row): { title: string; sort: string } {
  if (r.verdict === "deny") {
    return { title: "denied", sort: "denied" };
  }
  if (r.verdict === "error" || r.failed) {
    return { title: r.verdict === "error" ? "failed" : "allowed, failed", sort: "denied" };
  }
  if (r.verdict === "noOpinion") {
    return { title: "no opinion", sort: "neutral" };
  }
  const title = r.verdict === "allow" ? "allowed" : r.verdict;
  return r.warned ? { title: "warned", sort: "warned" } : r.changed ? { title: "changed", sort: "changed" } : { title, sort: "allowed" };
}

export function target(r: Row): string {
  const of = r.kind || r.resource || r.path || "";
  return `${of}${r.subresource ? "/" + r.subresource : ""} ${place({ namespace: r.namespace ?? "", name: r.name ?? "" })}`.trim();
}
