// The request that is decided.

import type { Signal } from "@preact/signals";
import { Editor } from "./editor";
import { authorization, cases, facts, groups, namespace, object, oldObject, operation, pane, requestTab, subresource, user } from "./model";
import type { RequestTab } from "./model";
import { Tabs } from "./parts";

const editors: Partial<Record<RequestTab, { text: Signal<string>; label: string; hint: string }>> = {
  object: { text: object, label: "Object", hint: "The object that somebody creates, as YAML" },
  old: { text: oldObject, label: "Old object", hint: "The object as it was, for updates and deletions" },
  facts: { text: facts, label: "Facts", hint: "What policies ask the cluster for: objects, as YAML" },
  authorization: { text: authorization, label: "Authorization", hint: "The spec of a SubjectAccessReview. With one, authorization policies decide" },
  cases: { text: cases, label: "Cases", hint: "A case file: what the policies have to decide. “Save as a case” writes one" },
};

function Field(props: { label: string; hint?: string; text: Signal<string>; placeholder?: string }) {
  return (
    <label>
      <span>{props.label}</span>
      <input
        type="text"
        value={props.text.value}
        placeholder={props.placeholder ?? ""}
        spellcheck={false}
        autocomplete="off"
        onInput={(e) => (props.text.value = e.currentTarget.value)}
      />
    </label>
  );
}

function User() {
  return (
    <form class="fields" onSubmit={(e) => e.preventDefault()}>
      <label>
        <span>Operation</span>
        <select value={operation.value} onChange={(e) => (operation.value = e.currentTarget.value)}>
          {["", "CREATE", "UPDATE", "DELETE", "CONNECT"].map((o) => (
            <option key={o} value={o}>
              {o || "by the objects"}
            </option>
          ))}
        </select>
      </label>
      <Field label="Namespace" text={namespace} placeholder="that of the object" />
      <Field label="Subresource" text={subresource} placeholder="none" />
      <Field label="User" text={user} placeholder="nobody in particular" />
      <label class="whole">
        <span>Groups, one per line</span>
        <textarea rows={4} spellcheck={false} value={groups.value} onInput={(e) => (groups.value = e.currentTarget.value)} />
      </label>
    </form>
  );
}

export function Request() {
  const tab = requestTab.value;
  const editor = editors[tab];
  const changed = [operation, namespace, subresource, user, groups].some((s) => s.value !== "");
  return (
    <section id="request" class={pane.value === "request" ? "pane shown" : "pane"} aria-label="Request">
      <div class="head">
        <h2>Request</h2>
        <Tabs
          label="Parts of the request"
          id="request"
          value={tab}
          onSelect={(t) => (requestTab.value = t)}
          tabs={[
            { id: "object", title: "Object", mark: object.value !== "" },
            { id: "old", title: "Old", mark: oldObject.value !== "" },
            { id: "user", title: "User", mark: changed },
            { id: "facts", title: "Facts", mark: facts.value !== "" },
            { id: "authorization", title: "Authorization", mark: authorization.value !== "" },
            { id: "cases", title: "Cases", mark: cases.value !== "" },
          ]}
        />
      </div>
      <div class="body edit" role="tabpanel" id="request-panel" aria-labelledby={`request-tab-${tab}`}>
        {editor ? <Editor key={tab} {...editor} /> : <User />}
      </div>
    </section>
  );
}
