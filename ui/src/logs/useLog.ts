// A Task's log by event stream. The browser reconnects with the id of the last line, so none comes twice.

import { useEffect, useRef, useState } from "react";
import { pathOf } from "../plane/api";

export interface Log {
  lines: string[];
  state: "connecting" | "following" | "ended" | "cut";
  message?: string;
}

interface Message {
  type: "status" | "log" | "info" | "error" | "complete";
  content?: string;
  message?: string;
  phase?: string;
}

export function useLog(namespace: string, name: string): Log {
  const [log, setLog] = useState<Log>({ lines: [], state: "connecting" });
  const pending = useRef<string[]>([]);
  useEffect(() => {
    setLog({ lines: [], state: "connecting" });
    pending.current = [];
    const source = new EventSource(`/api/v1${pathOf("tasks", namespace, name)}/logs`);
    let frame = 0;
    // Lines that arrive within one frame are one rendering: 100,000 of them must not be 100,000.
    const flush = () => {
      frame = 0;
      const added = pending.current;
      pending.current = [];
      setLog((old) => ({ ...old, lines: old.lines.concat(added) }));
    };
    const update = (change: Partial<Log>) => setLog((old) => ({ ...old, ...change }));
    source.onopen = () => update({ state: "following" });
    source.onerror = () => update({ state: "cut" });
    source.onmessage = (event) => {
      const message = JSON.parse(event.data) as Message;
      if (message.type === "log") {
        pending.current.push((message.content ?? "").replace(/\n$/, ""));
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
