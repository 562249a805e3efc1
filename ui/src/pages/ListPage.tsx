// The list of a kind. Filters live in the URL, rows are virtual, a row says why it is not well.

import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef } from "react";
import { Link, useSearchParams } from "react-router";
import { Badge, Command, useNow } from "../parts/common";
import { healthOf } from "../health";
import { linkTo, type Kind } from "../kinds";
import { useList, useLoaded } from "../plane/store";
import type { Item, Task } from "../plane/types";

const ROW = 32;

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
          <input className="field" data-filter placeholder="/ filter" aria-label="Filter by name" value={filter.text} onChange={(event) => set("q", event.target.value)} />
          {kind.plural === "tasks" ? <Link className="button first" to="/tasks/create">+ Task</Link> : null}
        </div>
      </div>
      {loaded && items.length === 0 ? <Empty kind={kind} /> : <Rows kind={kind} items={shown} now={now} />}
    </>
  );
}

function Rows({ kind, items, now }: { kind: Kind<Item>; items: Item[]; now: number }) {
  const scroller = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({ count: items.length, getScrollElement: () => scroller.current, estimateSize: () => ROW, overscan: 12 });
  const wide = ["130px", "minmax(160px, 1.6fr)", ...kind.columns.map((column) => column.width), "minmax(0, 2fr)"].join(" ");
  const narrow = ["110px", "minmax(0, 1.6fr)", ...kind.columns.filter((column) => !column.wide).map((column) => column.width)].join(" ");
  const columns = matchMedia("(max-width: 760px)").matches ? narrow : wide;
  return (
    <div className="list" role="table" aria-label={kind.title} aria-rowcount={items.length}>
      <div className="scroll" ref={scroller} tabIndex={0}>
        <div className="line titles" role="row" style={{ gridTemplateColumns: columns }}>
          <span role="columnheader">State</span>
          <span role="columnheader">Name</span>
          {kind.columns.map((column) => <span role="columnheader" key={column.title} className={column.wide ? "wide" : ""}>{column.title}</span>)}
          <span role="columnheader" className="wide">Why</span>
        </div>
        <div role="rowgroup" style={{ height: rows.getTotalSize(), position: "relative" }}>
          {rows.getVirtualItems().map((row) => {
            const item = items[row.index]!;
            const health = healthOf(kind.plural, item);
            return (
              <div key={item.uid} role="row" className="line" style={{ gridTemplateColumns: columns, position: "absolute", top: 0, left: 0, right: 0, transform: `translateY(${row.start}px)` }}>
                <span role="cell"><Badge health={health} /></span>
                <span role="cell" className="cut"><Link className="mono" to={linkTo(kind, item)}>{item.name}</Link></span>
                {kind.columns.map((column) => <span role="cell" key={column.title} className={`cut ${column.wide ? "wide" : ""}`}>{column.cell(item, now)}</span>)}
                <span role="cell" className="wide quiet cut" title={health.why}>{health.why}</span>
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
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
      <Command text={`kubectl explain ${kind.resource}.spec`} />
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
    item.name.toLowerCase().includes(filter.text.toLowerCase()) &&
    (!filter.namespace || item.namespace === filter.namespace) &&
    (!filter.state || healthOf(kind.plural, item).word === filter.state) &&
    (!filter.agent || (item as Task).agentRef?.name === filter.agent)
  );
}
