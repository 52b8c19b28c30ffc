// Violations as a table for other programs.

import type { Violation } from "./cluster";
import { name } from "./cluster";

/** field is a cell of CSV. Spreadsheets compute what begins like a formula: that gets an apostrophe before it. */
export function field(text: string): string {
  const plain = /^[=+\-@\t\r]/.test(text) ? "'" + text : text;
  return /[",\n\r]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}

export function csv(items: Violation[]): string {
  const head = ["status", "severity", "apiVersion", "kind", "namespace", "name", "message", "field", "policy", "rule", "validation", "category", "actions", "exemption"];
  const lines = items.map((v) =>
    [
      v.status,
      v.severity ?? "",
      v.object.apiVersion,
      v.object.kind,
      v.object.namespace ?? "",
      v.object.name,
      v.message ?? "",
      v.field ?? "",
      name(v.policy),
      v.rule,
      v.validation ?? "",
      v.category ?? "",
      (v.actions ?? []).join(" "),
      v.exemption ? name(v.exemption) : "",
    ]
      .map(field)
      .join(","),
  );
  return [head.join(","), ...lines].join("\r\n") + "\r\n";
}
