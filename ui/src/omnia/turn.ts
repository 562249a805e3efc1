// One turn of a conversation, as its events come. Pure.

import { count } from "../format";

/** What the facade sends. */
export type Event =
  | { type: "session"; sessionId: string }
  | { type: "chunk"; content: string }
  | { type: "tool_call"; name: string; arguments: unknown }
  | { type: "tool_result"; name: string; ok: boolean; content: string }
  | { type: "done"; content: string; packVersion?: string; usage?: { inputTokens: number; outputTokens: number; cost?: number } }
  | { type: "error"; message: string };

interface Call {
  name: string;
  arguments: unknown;
  result?: { ok: boolean; content: string };
}

export interface Turn {
  said: string;
  answer: string;
  calls: Call[];
  state: "answering" | "done" | "failed" | "stopped";
  note?: string;
}

/** What a turn is after one more event. Pure. */
export function after(turn: Turn, event: Event): Turn {
  switch (event.type) {
    case "chunk":
      return { ...turn, answer: turn.answer + event.content };
    case "tool_call":
      return { ...turn, calls: [...turn.calls, { name: event.name, arguments: event.arguments }] };
    case "tool_result": {
      const index = turn.calls.findIndex((call) => call.name === event.name && !call.result);
      const result = { ok: event.ok, content: event.content };
      return { ...turn, calls: turn.calls.map((call, at) => (at === index ? { ...call, result } : call)) };
    }
    case "done": {
      const { inputTokens = 0, outputTokens = 0, cost } = event.usage ?? {};
      const note = [event.packVersion ? `version ${event.packVersion}` : "", `${count(inputTokens)} tokens in, ${count(outputTokens)} out`, cost ? `$${cost.toFixed(4)}` : ""].filter(Boolean).join(" · ");
      return { ...turn, answer: event.content, state: "done", note };
    }
    case "error":
      return { ...turn, state: "failed", note: event.message };
    default:
      return turn;
  }
}
