import { expect, test } from "vitest";
import { after, type Turn } from "./turn";

const turn: Turn = { said: "hello", answer: "", calls: [], state: "answering" };

test("an answer grows, calls get their results in order, and the end has the whole of it", () => {
  const events = [
    { type: "chunk", content: "Let me" },
    { type: "tool_call", name: "look", arguments: { at: 1 } },
    { type: "tool_call", name: "look", arguments: { at: 2 } },
    { type: "tool_result", name: "look", ok: true, content: "first" },
    { type: "tool_result", name: "look", ok: false, content: "second" },
    { type: "done", content: "Let me see.", packVersion: "1.0.0", usage: { inputTokens: 12345, outputTokens: 1 } },
  ] as const;
  const said = events.reduce<Turn>(after, turn);
  expect(said.calls.map((call) => call.result?.content)).toEqual(["first", "second"]);
  expect(said).toMatchObject({ answer: "Let me see.", state: "done", note: "version 1.0.0 · 12\u2009345 tokens in, 1 out" });
  expect(after(turn, { type: "error", message: "no" })).toMatchObject({ state: "failed", note: "no" });
});
