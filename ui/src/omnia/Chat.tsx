// A conversation with a runtime, word by word, with the tools that it calls on the way.

import { useEffect, useRef, useState, type FormEvent, type KeyboardEvent } from "react";
import { Command } from "../parts/common";
import { lines, pathOf } from "../plane/api";
import type { Runtime } from "../plane/types";
import { after, type Event, type Turn } from "./turn";

export function Chat({ runtime }: { runtime: Runtime }) {
  const [turns, setTurns] = useState<Turn[]>([]);
  const [session, setSession] = useState<string>();
  const [text, setText] = useState("");
  const stop = useRef<AbortController>(undefined);
  const box = useRef<HTMLDivElement>(null);
  const path = `${pathOf("agentruntimes", runtime.namespace, runtime.name)}/chat`;
  const busy = turns.at(-1)?.state === "answering";
  useEffect(() => () => stop.current?.abort(), [path]);
  useEffect(() => {
    box.current?.scrollTo(0, box.current.scrollHeight);
  }, [turns]);

  const last = (change: (turn: Turn) => Turn) => setTurns((old) => old.map((turn, index) => (index === old.length - 1 ? change(turn) : turn)));
  const send = async () => {
    const said = text.trim();
    if (!said || busy) return;
    setText("");
    setTurns((old) => [...old, { said, answer: "", calls: [], state: "answering" }]);
    const abort = new AbortController();
    stop.current = abort;
    try {
      for await (const line of lines(path, { message: said, ...(session ? { sessionId: session } : {}) }, abort.signal)) {
        const event = JSON.parse(line) as Event;
        if (event.type === "session") setSession(event.sessionId);
        last((turn) => after(turn, event));
      }
      last((turn) => (turn.state === "answering" ? { ...turn, state: "failed", note: "The answer was cut off." } : turn));
    } catch (error) {
      last((turn) => ({ ...turn, ...(abort.signal.aborted ? { state: "stopped", note: "Stopped." } : { state: "failed", note: (error as Error).message }) }));
    }
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void send();
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    void send();
  };
  const body = JSON.stringify({ message: text.trim() || turns.at(-1)?.said || "hello" });
  return (
    <section className="chat" aria-label="Chat">
      <div className="turns" ref={box} role="log" aria-label={`Conversation with ${runtime.name}`} tabIndex={0}>
        {turns.length === 0 ? <p className="quiet">Say something to <span className="mono">{runtime.name}</span>. It goes to the runtime's Service as any client's request would; nothing of it is kept here.</p> : null}
        {turns.map((turn, index) => <TurnView key={index} turn={turn} name={runtime.name} />)}
      </div>
      <form onSubmit={submit}>
        <textarea className="field" rows={2} aria-label="Message" placeholder="Enter sends, Shift-Enter is a new line" value={text} onChange={(event) => setText(event.target.value)} onKeyDown={keys} autoFocus />
        <div className="tools">
          {busy ? <button type="button" className="button" onClick={() => stop.current?.abort()}>Stop</button> : <button className="button first" disabled={!text.trim()}>Send</button>}
          <button type="button" className="button" disabled={busy || turns.length === 0} onClick={() => { setTurns([]); setSession(undefined); }}>New conversation</button>
          <span className="quiet mono cut grow" title={session}>{session ? `session ${session}` : ""}</span>
        </div>
      </form>
      <Command text={`kubectl port-forward -n ${runtime.namespace} service/${runtime.name} 8080:${runtime.facade.port ?? 8080} & curl -N -H 'accept: text/event-stream' -H 'content-type: application/json' -d '${body.replaceAll("'", "'\\''")}' localhost:8080/v1/chat`} />
    </section>
  );
}

function TurnView({ turn, name }: { turn: Turn; name: string }) {
  return (
    <>
      <div className="turn said"><span className="who quiet">you</span><div className="words">{turn.said}</div></div>
      <div className="turn">
        <span className="who quiet">{name}</span>
        <div className="words">
          {turn.calls.map((call, index) => (
            <details key={index} className="call">
              <summary><span className={call.result ? (call.result.ok ? "done" : "failed") : "running"}>{call.result ? (call.result.ok ? "✓" : "✗") : "●"}</span> called <span className="mono">{call.name}</span></summary>
              <pre className="pre">{JSON.stringify(call.arguments, null, 2)}</pre>
              {call.result ? <pre className="pre">{call.result.content}</pre> : null}
            </details>
          ))}
          {turn.answer}
          {turn.state === "answering" && !turn.answer ? <span className="quiet" role="status">thinking…</span> : null}
          {turn.note ? <div className={turn.state === "failed" ? "failed" : "quiet"} role={turn.state === "failed" ? "alert" : undefined}>{turn.note}</div> : null}
        </div>
      </div>
    </>
  );
}
