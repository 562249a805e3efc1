// The log viewer: only the lines in sight are in the page, so length does not matter.

import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";
import { plain, spans } from "../logs/ansi";
import { useLog } from "../logs/useLog";
import { count } from "../format";

const LINE = 18;

export function LogView({ namespace, name }: { namespace: string; name: string }) {
  const log = useLog(namespace, name);
  const [search, setSearch] = useState("");
  const [wrap, setWrap] = useState(false);
  const [follow, setFollow] = useState(true);
  const [hit, setHit] = useState(0);
  const scroller = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({ count: log.lines.length, getScrollElement: () => scroller.current, estimateSize: () => LINE, overscan: 30 });
  const hits = useMemo(() => find(log.lines, search), [log.lines, search]);
  const current = hits.length > 0 ? hits[hit % hits.length] : undefined;

  useEffect(() => {
    if (follow && !search && log.lines.length > 0) rows.scrollToIndex(log.lines.length - 1, { align: "end" });
  }, [follow, search, log.lines.length, rows]);
  useEffect(() => {
    if (current !== undefined) rows.scrollToIndex(current, { align: "center" });
  }, [current, rows]);

  const keys = (event: KeyboardEvent) => {
    if (event.key === "Enter") setHit((index) => index + (event.shiftKey ? hits.length - 1 : 1));
  };
  const toError = () => {
    const index = log.lines.findIndex((line) => /\b(error|failed|panic)\b/i.test(plain(line)));
    if (index >= 0) {
      setFollow(false);
      rows.scrollToIndex(index, { align: "center" });
    }
  };
  return (
    <section className="log" aria-label="Log">
      <div className="tools">
        <input className="field grow" data-filter placeholder="Search the log" aria-label="Search the log" value={search} onKeyDown={keys} onChange={(event) => { setSearch(event.target.value); setHit(0); }} />
        {search ? <span className="quiet mono" role="status">{hits.length === 0 ? "no match" : `${(hit % hits.length) + 1} of ${hits.length}`}</span> : null}
        <label><input type="checkbox" checked={follow} onChange={(event) => setFollow(event.target.checked)} /> Follow</label>
        <label><input type="checkbox" checked={wrap} onChange={(event) => setWrap(event.target.checked)} /> Wrap</label>
        <button type="button" className="button" onClick={toError}>To the first error</button>
        <button type="button" className="button" disabled={log.lines.length === 0} onClick={() => download(`${name}.log`, log.lines)}>Download</button>
      </div>
      <div className="lines" ref={scroller} tabIndex={0} role="log" aria-label={`Log of ${name}`} onWheel={(event) => { if (event.deltaY < 0) setFollow(false); }}>
        <div style={{ height: rows.getTotalSize(), position: "relative" }}>
          {rows.getVirtualItems().map((row) => {
            const line = log.lines[row.index] ?? "";
            return (
              <div key={row.key} data-index={row.index} ref={wrap ? rows.measureElement : undefined} className={`text ${wrap ? "wrap" : ""} ${row.index === current ? "hit" : ""}`} style={{ position: "absolute", top: 0, left: 0, minWidth: "100%", width: wrap ? "100%" : undefined, transform: `translateY(${row.start}px)` }}>
                <span className="number">{row.index + 1}</span>
                <span>{spans(line).map((span, index) => <span key={index} style={span.style}>{span.text}</span>)}</span>
              </div>
            );
          })}
        </div>
      </div>
      <div className="state" role="status">{stateOf(log.state)} {count(log.lines.length)} lines. {log.message}</div>
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

function find(lines: string[], search: string): number[] {
  const wanted = search.toLowerCase();
  if (!wanted) return [];
  const found: number[] = [];
  lines.forEach((line, index) => {
    if (plain(line).toLowerCase().includes(wanted)) found.push(index);
  });
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
