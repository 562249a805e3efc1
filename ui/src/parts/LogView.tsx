// The log viewer: only the lines in sight are in the page, so length does not matter.

import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";
import { useLocation, useNavigate } from "react-router";
import { count } from "../format";
import { plain, spans, type Span } from "../logs/ansi";
import { useLog } from "../logs/useLog";
import { Command } from "./common";

const LINE = 18;
const TROUBLE = /\b(error|failed|fatal|panic|exception)\b/i;

export function LogView({ namespace, name }: { namespace: string; name: string }) {
  const log = useLog(namespace, name);
  const { hash } = useLocation();
  const navigate = useNavigate();
  const linked = Number(/^#L(\d+)$/.exec(hash)?.[1] ?? 0);
  const [search, setSearch] = useState("");
  const [wrap, setWrap] = useState(false);
  const [follow, setFollow] = useState(linked === 0);
  const [hit, setHit] = useState(0);
  const scroller = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({ count: log.count, getScrollElement: () => scroller.current, estimateSize: () => LINE, overscan: 30 });
  const hits = useMemo(() => find(log.lines, log.count, search), [log.lines, log.count, search]);
  const current = hits.length > 0 ? hits[hit % hits.length] : undefined;

  useEffect(() => {
    if (follow && !search && log.count > 0) rows.scrollToIndex(log.count - 1, { align: "end" });
  }, [follow, search, log.count, rows]);
  useEffect(() => {
    if (current !== undefined) rows.scrollToIndex(current, { align: "center" });
  }, [current, rows]);
  useEffect(() => {
    if (linked > 0 && log.count >= linked) rows.scrollToIndex(linked - 1, { align: "center" });
    // Once, when the line has come.
  }, [linked, log.count >= linked, rows]); // eslint-disable-line

  const step = (by: 1 | -1) => hits.length > 0 && setHit((index) => (index + by + hits.length) % hits.length);
  const keys = (event: KeyboardEvent) => {
    if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") setSearch("");
  };
  const inLog = (event: KeyboardEvent) => {
    if (event.key === "n") step(1);
    else if (event.key === "N") step(-1);
    else if (event.key === "End") setFollow(true);
    else if (["ArrowUp", "PageUp", "Home"].includes(event.key)) setFollow(false);
  };
  const toTrouble = () => {
    const index = log.lines.findIndex((line) => TROUBLE.test(plain(line)));
    setFollow(false);
    if (index >= 0) void navigate(`?tab=logs#L${index + 1}`, { replace: true });
  };
  const troubled = useMemo(() => log.lines.slice(0, log.count).some((line) => TROUBLE.test(plain(line))), [log.lines, log.count]);
  return (
    <section className="log" aria-label="Log">
      <div className="tools">
        <input className="field grow" data-filter placeholder="/ search the log" aria-label="Search the log" value={search} onKeyDown={keys} onChange={(event) => { setSearch(event.target.value); setHit(0); }} />
        {search ? (
          <>
            <span className="quiet mono" role="status">{hits.length === 0 ? "no match" : `${(hit % hits.length) + 1} of ${count(hits.length)}`}</span>
            <button type="button" className="button" disabled={hits.length === 0} onClick={() => step(-1)} aria-label="Previous match" title="N or Shift-Enter">↑</button>
            <button type="button" className="button" disabled={hits.length === 0} onClick={() => step(1)} aria-label="Next match" title="n or Enter">↓</button>
          </>
        ) : null}
        <label><input type="checkbox" checked={follow} onChange={(event) => setFollow(event.target.checked)} /> Follow</label>
        <label><input type="checkbox" checked={wrap} onChange={(event) => { setWrap(event.target.checked); requestAnimationFrame(() => rows.measure()); }} /> Wrap</label>
        <button type="button" className="button" disabled={!troubled} title={troubled ? undefined : "No line speaks of an error"} onClick={toTrouble}>First error</button>
        <button type="button" className="button" disabled={log.count === 0} onClick={() => download(`${name}.log`, log.lines)}>Download</button>
      </div>
      <div className="lines" ref={scroller} tabIndex={0} role="log" aria-live="off" aria-label={`Log of ${name}`} onKeyDown={inLog} onWheel={(event) => { if (event.deltaY < 0) setFollow(false); }}>
        <div style={{ height: rows.getTotalSize(), position: "relative" }}>
          {rows.getVirtualItems().map((row) => (
            <div key={row.key} data-index={row.index} ref={wrap ? rows.measureElement : undefined} className={`text ${wrap ? "wrap" : ""} ${row.index === current || row.index === linked - 1 ? "hit" : ""}`} style={{ position: "absolute", top: 0, left: 0, minWidth: "100%", width: wrap ? "100%" : undefined, transform: `translateY(${row.start}px)` }}>
              <a className="number" href={`#L${row.index + 1}`} tabIndex={-1} aria-label={`Link to line ${row.index + 1}`} onClick={(event) => { event.preventDefault(); setFollow(false); void navigate(`?tab=logs#L${row.index + 1}`, { replace: true }); }}>{row.index + 1}</a>
              <span>{marked(spans(log.lines[row.index] ?? ""), search).map((span, index) => <span key={index} className={span.hit ? "matched" : undefined} style={span.style}>{span.text}</span>)}</span>
            </div>
          ))}
        </div>
      </div>
      <div className="state" role="status">{stateOf(log.state)} {count(log.count)} lines. {log.message}</div>
      <div style={{ padding: "0 8px 4px" }}><Command text={`orrery logs ${name} -n ${namespace}${log.state === "ended" ? "" : " --follow"}`} /></div>
    </section>
  );
}

function stateOf(state: string): string {
  switch (state) {
    case "following":
      return "Following.";
    case "ended":
      return "Ended.";
    case "cut":
      return "Cut off; it goes on where it was when the server answers.";
    default:
      return "Connecting.";
  }
}

/** Parts a line where it holds what is searched for, within each colour. */
function marked(parts: Span[], search: string): (Span & { hit?: boolean })[] {
  const wanted = search.toLowerCase();
  if (!wanted) return parts;
  return parts.flatMap((span) => {
    const found: (Span & { hit?: boolean })[] = [];
    let rest = span.text;
    for (let index = rest.toLowerCase().indexOf(wanted); index >= 0; index = rest.toLowerCase().indexOf(wanted)) {
      if (index > 0) found.push({ ...span, text: rest.slice(0, index) });
      found.push({ ...span, text: rest.slice(index, index + wanted.length), hit: true });
      rest = rest.slice(index + wanted.length);
    }
    return rest || found.length === 0 ? [...found, { ...span, text: rest }] : found;
  });
}

function find(lines: string[], length: number, search: string): number[] {
  const wanted = search.toLowerCase();
  if (!wanted) return [];
  const found: number[] = [];
  for (let index = 0; index < length; index++) if (plain(lines[index] ?? "").toLowerCase().includes(wanted)) found.push(index);
  return found;
}

function download(name: string, lines: string[]) {
  const url = URL.createObjectURL(new Blob([lines.map(plain).join("\n"), "\n"], { type: "text/plain" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
