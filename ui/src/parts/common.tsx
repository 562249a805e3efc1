// Small parts that every page uses.

import { useEffect, useState, useSyncExternalStore, type ReactNode } from "react";
import { Link } from "react-router";
import type { Health } from "../health";
import type { Line } from "../difference";
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
      <code>{text}</code>
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

/** Why it is not as one would wish, and what to do about it. */
export function Why({ health }: { health: Health }) {
  if (!health.why) return null;
  return (
    <div className={`why ${health.shape}`} role="status">
      {health.why}
      {health.todo ? <div className="todo"><span className="quiet">{health.todo.text}</span>{health.todo.to ? <Link to={health.todo.to}>{health.todo.label}</Link> : null}{health.todo.command ? <Command text={health.todo.command} /> : null}</div> : null}
    </div>
  );
}

const phone = matchMedia("(max-width: 760px)");
const small = matchMedia("(max-width: 1180px)");

function useMedia(media: MediaQueryList): boolean {
  return useSyncExternalStore(
    (tell) => {
      media.addEventListener("change", tell);
      return () => media.removeEventListener("change", tell);
    },
    () => media.matches,
  );
}

/** Whether the window is as narrow as a phone. */
export const useNarrow = () => useMedia(phone);

/** Whether the window has no room for what is good to know but not needed. */
export const useSmall = () => useMedia(small);

/** Something grey where a list will be, when it takes long enough to be noticed. */
export function Skeleton() {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 200);
    return () => clearTimeout(timer);
  }, []);
  return late ? <div role="status" aria-label="Loading">{[0, 1, 2, 3].map((row) => <div key={row} className="skeleton" />)}</div> : null;
}

export function Problem({ error }: { error?: Error }) {
  return error ? <div className="why failed" role="alert">{error.message}</div> : null;
}

export function Difference({ label, lines }: { label: string; lines: Line[] }) {
  return <pre className="pre" tabIndex={0} role="region" aria-label={label}>{lines.map((line, index) => <div key={index} className={line.kind === "+" ? "done" : line.kind === "-" ? "failed" : "quiet"}>{`${line.kind} ${line.text}`}</div>)}</pre>;
}
