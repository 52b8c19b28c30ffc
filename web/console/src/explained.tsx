// Why something was decided: the object as it is now and the policies, decided again with every value.

import { useEffect, useState } from "preact/hooks";
import { post, superseded } from "./api";
import type { Decision } from "./api";
import { live } from "./cluster";
import type { Command, Opened, Ref } from "./cluster";
import { Line, Missing, Waiting, Wrong, play, sentence } from "./looks";
import { said } from "./model";
import { Icon } from "./parts";
import { DecisionView, Places } from "./result";

export interface Subject {
  object?: Ref & { apiVersion: string };
  policies: Ref[];
  user?: string;
  operation?: string;
  subresource?: string;
}

/** quoted is a text as one word of a shell. */
export function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

const blanks = "--reason WHY --owner WHO";

/** Exempt fills in why and who, which the line needs. */
export function Exempt({ run, then = [] }: { run: string; then?: Command[] }) {
  const [reason, setReason] = useState("");
  const [owner, setOwner] = useState("");
  const filled = run.replace(blanks, () => `--reason ${quoted(reason.trim() || "WHY")} --owner ${quoted(owner.trim() || "WHO")}`);
  return (
    <section class="exempt">
      <h3>Write an exemption</h3>
      {run.includes(blanks) ? (
        <form class="pair" onSubmit={(e) => e.preventDefault()}>
          <label>
            <span>Reason</span>
            <input type="text" id="exempt-reason" placeholder="why it is needed" value={reason} onInput={(e) => setReason(e.currentTarget.value)} />
          </label>
          <label>
            <span>Owner</span>
            <input type="text" id="exempt-owner" placeholder="whom to ask" value={owner} onInput={(e) => setOwner(e.currentTarget.value)} />
          </label>
        </form>
      ) : null}
      <Line command={{ title: run.includes(">") ? "Write it to a file: nothing is exempt yet" : "Print it: nothing is exempt yet", run: filled }} />
      {then.map((c) => (
        <Line key={c.run} command={c} />
      ))}
    </section>
  );
}

const isExempt = (c: Command) => /^(.*\| *)?usher exempt\b/.test(c.run);

/** What is done with the file of an exemption. */
const isApply = (c: Command) => /^kubectl apply .*exemption/.test(c.run);

/** Explained decides again as soon as it is shown. */
export function Explained({ subject, exempt, title }: { subject: Subject; exempt?: string; title: string }) {
  const [opened, setOpened] = useState<Opened | null>(null);
  const [decision, setDecision] = useState<Decision | null>(null);
  const [error, setError] = useState("");
  const [turn, setTurn] = useState(0);
  const key = JSON.stringify(subject);
  useEffect(() => {
    const abort = new AbortController();
    setOpened(null);
    setDecision(null);
    setError("");
    void explain(subject, abort.signal, setOpened, setDecision).catch((e: unknown) => abort.signal.aborted || setError(said(e)));
    return () => abort.abort();
  }, [key, turn]);
  const commands = opened?.commands ?? [];
  const line = commands.find(isExempt)?.run ?? exempt ?? "";
  return (
    <>
      {line ? <Exempt key={line} run={line} then={commands.filter(isApply)} /> : null}
      <section class="explanation" aria-label="Explanation">
        <div class="row">
          <h3>Explanation</h3>
          {opened ? (
            <button type="button" id="play" onClick={() => play(opened.state, title)}>
              <Icon name="test" /> Open in the playground
            </button>
          ) : null}
        </div>
        {error ? <Wrong title="There is no explanation" error={error} onAgain={() => setTurn((n) => n + 1)} /> : null}
        {opened?.lacks.map((text) => (
          <p key={text} class="lack">
            {sentence(text)}
          </p>
        ))}
        {opened ? <Missing gaps={opened.missing} /> : null}
        {decision ? (
          <Places.Provider value={false}>
            <DecisionView d={decision} />
          </Places.Provider>
        ) : error || (opened && !decidable(opened)) ? null : (
          <Waiting what="the explanation" />
        )}
      </section>
      {commands
        .filter((c) => !isExempt(c) && !(line && isApply(c)))
        .map((c) => (
          <Line key={c.run} command={c} />
        ))}
    </>
  );
}

const decidable = (o: Opened) => !!(o.state.object || o.state.oldObject || o.state.authorization);

async function explain(subject: Subject, signal: AbortSignal, onOpened: (o: Opened) => void, onDecision: (d: Decision) => void): Promise<void> {
  const o = await live(subject, signal);
  if (signal.aborted) {
    return;
  }
  onOpened(o);
  if (!decidable(o)) {
    return;
  }
  for (let tries = 0; ; tries++) {
    try {
      const d = await post<Decision>("decide", o.state, signal, "-explained");
      if (!signal.aborted) {
        onDecision(d);
      }
      return;
    } catch (e) {
      if (signal.aborted || !superseded(e) || tries > 2) {
        throw e;
      }
    }
  }
}
