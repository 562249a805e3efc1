// A Task's log by event stream. The browser reconnects with the id of the last line, so none comes twice.

import { useEffect, useState } from "react";
import { pathOf } from "../plane/api";

export interface Log {
  /** Grows in place: copying 100,000 lines for each new one would be felt. `count` says how many are there. */
  lines: string[];
  count: number;
  state: "connecting" | "following" | "ended" | "cut";
  message?: string;
}

interface Message {
  type: "status" | "log" | "info" | "error" | "complete";
  content?: string;
  message?: string;
  phase?: string;
}

const empty = (): Log => ({ lines: [], count: 0, state: "connecting" });

export function useLog(namespace: string, name: string): Log {
  const [log, setLog] = useState<Log>(empty);
  useEffect(() => {
    const start = empty();
    setLog(start);
    const source = new EventSource(`/api/v1${pathOf("tasks", namespace, name)}/logs`);
    let frame = 0;
    // Lines that arrive within one frame are one rendering.
    const flush = () => {
      frame = 0;
      setLog((old) => ({ ...old, count: old.lines.length }));
    };
    const update = (change: Partial<Log>) => setLog((old) => ({ ...old, ...change, count: old.lines.length }));
    source.onopen = () => update({ state: "following" });
    source.onerror = () => update({ state: "cut" });
    source.onmessage = (event: MessageEvent<string>) => {
      const message = JSON.parse(event.data) as Message;
      if (message.type === "log") {
        start.lines.push((message.content ?? "").replace(/\n$/, ""));
        frame ||= requestAnimationFrame(flush);
      } else if (message.type === "complete") {
        source.close();
        update({ state: "ended", message: `The Task is ${message.phase}.` });
      } else if (message.type === "error") {
        source.close();
        update({ state: "ended", message: message.message });
      } else if (message.type === "info") update({ message: message.message });
    };
    return () => {
      source.close();
      cancelAnimationFrame(frame);
    };
  }, [namespace, name]);
  return log;
}
