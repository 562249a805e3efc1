// Small parts that every page uses.

import { useEffect, useState, type ReactNode } from "react";
import type { Health } from "../health";
import { age, exact } from "../format";

const SHAPES = { running: "●", waiting: "◐", done: "✓", failed: "✗", suspended: "◌", degraded: "▲" } as const;

export function Badge({ health, word = true }: { health: Health; word?: boolean }) {
  return (
    <span className={`badge ${health.shape}`} title={health.why}>
      <span className={`shape ${health.shape === "running" ? "turning" : ""}`} aria-hidden="true">{SHAPES[health.shape]}</span>
      {word ? <span className="word">{health.word}</span> : <span hidden>{health.word}</span>}
    </span>
  );
}

/** The time, moving once a second. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

export function Age({ at }: { at?: string }) {
  return <time className="mono" dateTime={at} title={exact(at)}>{age(at, useNow())}</time>;
}

export function Command({ text }: { text: string }) {
  const [copied, setCopied] = useState(false);
  const copy = () => navigator.clipboard.writeText(text).then(() => setCopied(true));
  return (
    <div className="command">
      <code tabIndex={0}>{text}</code>
      <button type="button" onClick={copy} aria-label={`Copy: ${text}`}>{copied ? "copied" : "copy"}</button>
    </div>
  );
}

export function Facts({ facts }: { facts: [string, ReactNode][] }) {
  return (
    <dl className="facts">
      {facts.map(([title, value]) => (
        <div key={title}>
          <dt>{title}</dt>
          <dd className="cut">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Why({ health }: { health: Health }) {
  return health.why ? <div className={`why ${health.shape}`} role="status">{health.why}</div> : null;
}

export function Problem({ error }: { error?: Error }) {
  return error ? <div className="why failed" role="alert">{error.message}</div> : null;
}
