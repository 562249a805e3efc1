// The list of a kind. Filters live in the URL, rows are virtual, a row says why it is not well.

import { useVirtualizer } from "@tanstack/react-virtual";
import { lazy, Suspense, useEffect, useMemo, useRef } from "react";
import { Link, useSearchParams } from "react-router";
import { Badge, Command, Skeleton, useNarrow, useNow, useSmall } from "../parts/common";
import { healthOf } from "../health";
import { linkTo, type Kind } from "../kinds";
import { useList, useLoaded } from "../plane/store";
import type { Item, Task } from "../plane/types";

const Week = lazy(() => import("../parts/Week").then((module) => ({ default: module.Week })));

const ROW = 32;
const NARROW_ROW = 52;

export function ListPage({ kind }: { kind: Kind<Item> }) {
  const items = useList(kind.plural) as Item[];
  const loaded = useLoaded(kind.plural);
  const [parameters, setParameters] = useSearchParams();
  const now = useNow();
  const filter = { text: parameters.get("q") ?? "", namespace: parameters.get("ns") ?? "", state: parameters.get("state") ?? "", agent: parameters.get("agent") ?? "" };
  const states = useMemo(() => unique(items.map((item) => healthOf(kind.plural, item).word)), [items, kind]);
  const namespaces = useMemo(() => unique(items.map((item) => item.namespace)), [items]);
  const agents = useMemo(() => (kind.plural === "tasks" ? unique(items.flatMap((item) => (item as Task).agentRef?.name ?? [])) : []), [items, kind]);
  const shown = useMemo(() => items.filter((item) => matches(kind, item, filter)), [items, kind, filter.text, filter.namespace, filter.state, filter.agent]);
  const set = (key: string, value: string) =>
    setParameters((old) => {
      if (value) old.set(key, value);
      else old.delete(key);
      return old;
    }, { replace: true });
  return (
    <>
      <div className="head">
        <h1>{kind.title}</h1>
        <span className="quiet mono" role="status">{shown.length === items.length ? items.length : `${shown.length} of ${items.length}`}</span>
        <div className="grow" />
        <div className="tools">
          <Choice label="Namespace" all="all namespaces" value={filter.namespace} options={namespaces} onChange={(value) => set("ns", value)} />
          <Choice label="State" all="any state" value={filter.state} options={states} onChange={(value) => set("state", value)} />
          {agents.length > 0 ? <Choice label="Agent" all="any agent" value={filter.agent} options={agents} onChange={(value) => set("agent", value)} /> : null}
          <input className="field" data-filter placeholder="/ name or label" aria-label="Filter by name or label" value={filter.text} onChange={(event) => set("q", event.target.value)} />
          {kind.plural === "tasks" ? <Link className="button first" to="/tasks/create">+ Task</Link> : null}
        </div>
      </div>
      {kind.plural === "crontasks" && items.length > 0 ? <Suspense><Week namespace={filter.namespace} /></Suspense> : null}
      {!loaded ? <Skeleton /> : items.length === 0 ? <Empty kind={kind} /> : shown.length === 0 ? <Nothing clear={() => setParameters({}, { replace: true })} /> : <Rows kind={kind} items={shown} now={now} />}
    </>
  );
}

function Rows({ kind, items, now }: { kind: Kind<Item>; items: Item[]; now: number }) {
  const scroller = useRef<HTMLDivElement>(null);
  const height = useNarrow() ? NARROW_ROW : ROW;
  const small = useSmall();
  const shown = kind.columns.filter((column) => !small || !column.spare);
  const rows = useVirtualizer({ count: items.length, getScrollElement: () => scroller.current, estimateSize: () => height, overscan: 12 });
  useEffect(() => rows.measure(), [height, rows]);
  const widths = ["112px", "minmax(130px, 1.8fr)", ...shown.map((column) => column.width), "minmax(0, 2.2fr)"].join(" ");
  return (
    <div className="list">
      <div className="scroll" ref={scroller} tabIndex={0} role="region" aria-label={`All ${kind.title.toLowerCase()}`}>
       <div role="table" aria-label={kind.title} aria-rowcount={items.length + 1}>
        <div className="line titles" role="row" style={{ gridTemplateColumns: widths }}>
          <span role="columnheader">State</span>
          <span role="columnheader">Name</span>
          {shown.map((column) => <span role="columnheader" key={column.title} className={column.wide ? "wide" : ""}>{column.title}</span>)}
          <span role="columnheader" className="wide">Why</span>
        </div>
        <div role="rowgroup" style={{ height: rows.getTotalSize(), position: "relative" }}>
          {rows.getVirtualItems().map((row) => {
            const item = items[row.index]!;
            const health = healthOf(kind.plural, item);
            return (
              <div key={item.uid} role="row" className="line" style={{ gridTemplateColumns: widths, position: "absolute", top: 0, left: 0, right: 0, transform: `translateY(${row.start}px)` }}>
                <span role="cell"><Badge health={health} /></span>
                <span role="cell" className="cut"><Link className="mono" to={linkTo(kind, item)}>{item.name}</Link></span>
                {shown.map((column) => <span role="cell" key={column.title} className={`cut ${column.wide ? "wide" : ""}`}>{column.cell(item, now)}</span>)}
                <span role="cell" className="wide quiet cut" title={health.why}>{health.why}</span>
              </div>
            );
          })}
        </div>
       </div>
      </div>
    </div>
  );
}

function Nothing({ clear }: { clear: () => void }) {
  return <div className="empty"><p>Nothing matches these filters.</p><button type="button" className="button" onClick={clear}>Show everything</button></div>;
}

function Empty({ kind }: { kind: Kind<Item> }) {
  return (
    <div className="empty">
      <p>No {kind.title.toLowerCase()} yet.</p>
      {kind.empty.map((hint) => (
        <div key={hint.command}>
          <p>{hint.text}</p>
          <Command text={hint.command} />
        </div>
      ))}
      {kind.readOnly ? null : <Command text={`kubectl explain ${kind.resource}.spec`} />}
    </div>
  );
}

function Choice({ label, all, value, options, onChange }: { label: string; all: string; value: string; options: string[]; onChange: (value: string) => void }) {
  return (
    <select className="field" aria-label={label} value={value} onChange={(event) => onChange(event.target.value)}>
      <option value="">{all}</option>
      {(value && !options.includes(value) ? [value, ...options] : options).map((option) => <option key={option}>{option}</option>)}
    </select>
  );
}

function unique(values: string[]): string[] {
  return [...new Set(values)].sort();
}

function matches(kind: Kind<Item>, item: Item, filter: { text: string; namespace: string; state: string; agent: string }): boolean {
  return (
    holds(item, filter.text.toLowerCase()) &&
    (!filter.namespace || item.namespace === filter.namespace) &&
    (!filter.state || healthOf(kind.plural, item).word === filter.state) &&
    (!filter.agent || (item as Task).agentRef?.name === filter.agent)
  );
}

/** By name, or by a label written as it is on the command line: `team=accounts`. */
function holds(item: Item, text: string): boolean {
  if (item.name.toLowerCase().includes(text)) return true;
  return Object.entries(item.labels ?? {}).some(([key, value]) => `${key}=${value}`.toLowerCase().includes(text));
}
