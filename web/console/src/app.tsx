import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { cluster, meet } from "./cluster";
import { Dialogs, dialog } from "./dialogs";
import { LiveView } from "./livestream";
import { Off } from "./looks";
import { connection, info, start } from "./model";
import { Icon } from "./parts";
import { Playground, focusPane, open, panes } from "./playground";
import { PoliciesView } from "./policies";
import { PolicyView } from "./policy";
import { go, href, route } from "./route";
import type { View } from "./route";
import { choice, choose } from "./theme";
import { ViolationsView } from "./violations";

function Theme() {
  const next = { system: "light", light: "dark", dark: "system" } as const;
  return (
    <button type="button" class="plain" id="theme" aria-label={`Theme: ${choice.value}`} title={`Theme: ${choice.value}`} onClick={() => choose(next[choice.value])}>
      <Icon name={choice.value} />
    </button>
  );
}

const views: { view: View; title: string; of: View[] }[] = [
  { view: "playground", title: "Playground", of: ["playground"] },
  { view: "policies", title: "Policies", of: ["policies", "policy"] },
  { view: "violations", title: "Violations", of: ["violations"] },
  { view: "live", title: "Live", of: ["live"] },
];

function Header() {
  const now = route.value.view;
  const c = cluster.value;
  return (
    <header class="top">
      <h1 class="brand">
        <img src="/assets/icon.svg" alt="" width={24} height={24} /> Usher <span>console</span>
      </h1>
      <nav aria-label="Views" class="views">
        {views.map((v) => (
          <a key={v.view} id={"to-" + v.view} href={href(v.view)} aria-current={v.of.includes(now) ? "page" : undefined}>
            {v.title}
          </a>
        ))}
      </nav>
      <div class="bar end">
        {c?.enabled ? (
          <p class="where" title={[c.cluster, c.user].filter((s) => s).join(", ")}>
            {c.cluster}
            {c.user ? <span> {c.user}</span> : null}
          </p>
        ) : null}
        <Theme />
        <button type="button" class="plain" aria-label="Keyboard and help" title="Keyboard and help" onClick={() => open("help")}>
          <Icon name="help" />
        </button>
      </div>
    </header>
  );
}

function Connection() {
  const c = connection.value;
  return (
    <div role="alert" class={c === "lost" || c === "expired" ? "banner" : "hidden"}>
      {c === "lost" ? "The connection to usher console is lost. What you wrote stays here; the page tries again each second." : null}
      {c === "expired" ? "Another run of usher console answers. Open the address that it printed; what you wrote stays in this tab." : null}
    </div>
  );
}

/** In every view: 1 to 4 choose one, / goes to its search, r loads again, ? helps. */
function shortcut(e: KeyboardEvent): void {
  if (dialog.value !== null || e.ctrlKey || e.metaKey || e.altKey || (e.target as HTMLElement).closest("input, textarea, select, .cm-editor")) {
    return;
  }
  const view = views[Number(e.key) - 1];
  if (view !== undefined) {
    go(view.view);
  } else if (e.key === "/") {
    document.querySelector<HTMLElement>("main #search, main #filter-policy")?.focus();
  } else if (e.key === "r") {
    document.querySelector<HTMLElement>("main #reload, main #pause")?.click();
  } else if (e.key === "g") {
    document.querySelector<HTMLElement>("main .rows")?.focus();
  } else if (e.key === "?") {
    open("help");
  } else {
    return;
  }
  e.preventDefault();
}

function Skips({ view }: { view: View }) {
  return (
    <nav class="skips" aria-label="Skip">
      {view === "playground" ? (
        panes.map((p) => (
          <a
            key={p}
            href={"#" + p}
            onClick={(e) => {
              e.preventDefault();
              focusPane(p);
            }}
          >
            Skip to {p}
          </a>
        ))
      ) : (
        <a
          href="#main"
          onClick={(e) => {
            e.preventDefault();
            (document.querySelector<HTMLElement>("main .rows") ?? document.querySelector<HTMLElement>("main"))?.focus();
          }}
        >
          Skip to {view === "policy" ? "the policy" : "the rows"}
        </a>
      )}
    </nav>
  );
}

const shownViews = { policies: PoliciesView, policy: PolicyView, violations: ViolationsView, live: LiveView };

function App() {
  const { view } = route.value;
  const [played, setPlayed] = useState(view === "playground");
  useEffect(() => {
    addEventListener("keydown", shortcut);
    meet();
    void start();
  }, []);
  useEffect(() => {
    if (view === "playground") {
      setPlayed(true);
    }
    document.title = `${views.find((v) => v.of.includes(view))!.title} – Usher console`;
  }, [view]);
  const View = view === "playground" ? null : cluster.value?.enabled ? shownViews[view] : Off;
  return (
    <>
      <Skips view={view} />
      <Header />
      <Connection />
      <main id="main" tabIndex={-1}>
        {played || view === "playground" ? <Playground shown={view === "playground"} /> : null}
        {View ? <View key={view} /> : null}
      </main>
      <footer>
        <span>{info.value ? `Usher ${info.value.version}` : ""}</span>
        <span class="folder">{info.value?.folder ? `${info.value.folder}${info.value.writable ? "" : " (read only)"}` : ""}</span>
      </footer>
      <Dialogs />
    </>
  );
}

const root = document.getElementById("app")!;
root.textContent = "";
render(<App />, root);
