// A terminal in the Agent's Pod.

import { FitAddon } from "@xterm/addon-fit";
import { Terminal as Screen } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { useEffect, useRef, useState } from "react";
import { pathOf } from "../plane/api";
import type { Agent } from "../plane/types";
import { Command } from "./common";
import { styled, withSheets } from "./styled";

type State = { word: "connecting" | "open" | "ended"; message?: string };

export function Terminal({ agent }: { agent: Agent }) {
  const box = useRef<HTMLDivElement>(null);
  const [state, setState] = useState<State>({ word: "connecting" });
  const [attempt, setAttempt] = useState(0);
  const path = `/api/v1${pathOf("agents", agent.namespace, agent.name)}/terminal`;

  useEffect(() => {
    if (!box.current) return;
    setState({ word: "connecting" });
    const screen = new Screen({ fontFamily: "ui-monospace, Menlo, monospace", fontSize: 13, theme: { background: "#0f1115" }, screenReaderMode: true, cursorBlink: false, documentOverride: styled() });
    const fit = new FitAddon();
    screen.loadAddon(fit);
    const parent = box.current;
    withSheets(() => screen.open(parent));
    fit.fit();
    const socket = new WebSocket(path);
    socket.binaryType = "arraybuffer";
    const resize = () => {
      fit.fit();
      if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ type: "resize", cols: screen.cols, rows: screen.rows }));
    };
    const watch = new ResizeObserver(resize);
    watch.observe(box.current);
    const encoder = new TextEncoder();
    // Whoever types before the shell is there is not ignored.
    let early = "";
    screen.onData((text) => {
      if (socket.readyState === WebSocket.OPEN) socket.send(encoder.encode(text));
      else if (socket.readyState === WebSocket.CONNECTING) early += text;
    });
    socket.onopen = () => {
      setState({ word: "open" });
      resize();
      if (early) socket.send(encoder.encode(early));
      screen.focus();
    };
    socket.onmessage = (event: MessageEvent<ArrayBuffer | string>) => {
      if (typeof event.data === "string") setState({ word: "ended", message: (JSON.parse(event.data) as { message?: string }).message });
      else screen.write(new Uint8Array(event.data));
    };
    socket.onclose = () => {
      setState((old) => (old.word === "ended" ? old : { word: "ended", message: old.word === "open" ? "The connection was cut." : undefined }));
      // A WebSocket does not say why it was refused; the same address asked plainly does.
      void fetch(path).then(async (answer) => {
        const refusal = (await answer.json().catch(() => ({}))) as { message?: string; error?: string };
        if (answer.status !== 400 && refusal.message) setState({ word: "ended", message: refusal.message });
      }, () => undefined);
    };
    return () => {
      watch.disconnect();
      socket.onclose = null;
      socket.close();
      screen.dispose();
    };
  }, [path, attempt]);

  return (
    <section className="terminal" aria-label="Terminal">
      <div className="screen" ref={box} />
      <div className="state" role="status">
        {state.word === "connecting" ? "Connecting." : state.word === "open" ? `A shell in the Pod of ${agent.name}.` : (state.message ?? "It did not open.")}
        {state.word === "ended" ? <button type="button" className="button" onClick={() => setAttempt((count) => count + 1)}>Open again</button> : null}
      </div>
      <div style={{ padding: "0 8px 4px", background: "var(--background)" }}><Command text={`kubectl exec -it -n ${agent.namespace} deploy/${agent.serverStatus.deploymentName ?? `${agent.name}-server`} -c opencode-server -- sh`} /></div>
    </section>
  );
}
