import { expect, test } from "vitest";
import { difference } from "./difference";
import { age, count, duration, short, until } from "./format";
import { plain, spans } from "./logs/ansi";

const now = Date.parse("2026-01-01T12:00:00Z");

test("durations read like a clock", () => {
  expect([0, 59, 61, 3600, 3661].map(duration)).toEqual(["00:00", "00:59", "01:01", "1:00:00", "1:01:01"]);
});

test("ages have one unit", () => {
  expect(["2026-01-01T11:59:59Z", "2026-01-01T11:59:00Z", "2026-01-01T11:30:00Z", "2026-01-01T02:00:00Z", "2025-12-01T12:00:00Z", undefined].map((at) => age(at, now))).toEqual(["now", "60s", "30m", "10h", "31d", "–"]);
  expect(until("2026-01-01T12:10:00Z", now)).toBe("in 10m");
  expect(until("2026-01-01T11:00:00Z", now)).toBe("due");
});

test("numbers are short where room is short", () => {
  expect([999, 12345, 2_500_000].map(short)).toEqual(["999", "12.3k", "2.5M"]);
  expect(count(1234567)).toBe("1\u2009234\u2009567");
});

test("colours of a log line become styles and everything else is dropped", () => {
  expect(spans("plain")).toEqual([{ text: "plain" }]);
  expect(spans("\u001b[31mred\u001b[0m rest")).toEqual([{ text: "red", style: { color: "light-dark(#c02626, #ff8080)" } }, { text: " rest" }]);
  expect(plain("\u001b[2K\u001b]0;title\u0007a\u001b[1;32mb\u001b[m")).toBe("ab");
});

test("a difference shows what changed and a little around it", () => {
  expect(difference("a\nb\nc", "a\nb\nc")).toEqual([]);
  expect(difference("a\nb\nc\nd", "a\nx\nc\nd")).toEqual([{ kind: " ", text: "a" }, { kind: "-", text: "b" }, { kind: "+", text: "x" }, { kind: " ", text: "c" }, { kind: " ", text: "d" }]);
});
