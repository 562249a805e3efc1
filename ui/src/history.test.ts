import { expect, test } from "vitest";
import { outcomes, queue, spent, within } from "./history";
import type { Task } from "./plane/types";

const NOW = Date.parse("2026-01-02T12:30:00Z");
const task = (change: Partial<Task>): Task => ({ name: "a", namespace: "b", uid: "c", resourceVersion: "1", createdAt: "2026-01-02T12:10:00Z", conditions: [], phase: "Completed", ...change });

test("Tasks fall into the hour they were created in", () => {
  const bars = outcomes([task({}), task({ phase: "Failed" }), task({ createdAt: "2026-01-02T11:59:59Z", phase: "Running" }), task({ createdAt: "2025-12-01T00:00:00Z" })], "day", NOW);
  expect(bars).toHaveLength(24);
  expect(bars.at(-1)?.values).toEqual([1, 1, 0]);
  expect(bars.at(-2)?.values).toEqual([0, 0, 1]);
  expect(bars.slice(0, -2).every((bar) => bar.values.every((value) => value === 0))).toBe(true);
});

test("the queue is as long as it was at its longest, and who waits still waits", () => {
  const tasks = [task({ createdAt: "2026-01-02T10:05:00Z", startTime: "2026-01-02T11:10:00Z" }), task({ createdAt: "2026-01-02T10:06:00Z", phase: "Queued" }), task({ startTime: "2026-01-02T12:10:00Z" })];
  expect(queue(tasks, "day", NOW).slice(-4).map((bar) => bar.values[0])).toEqual([0, 2, 2, 1]);
});

test("what was spent is added up when it was spent", () => {
  const bars = spent([task({ completionTime: "2026-01-02T12:20:00Z" }), task({})], "day", NOW, () => [2, 3]);
  expect(bars.at(-1)?.values).toEqual([4, 6]);
});

test("only what is in the range counts", () => {
  expect(within([task({}), task({ createdAt: "2025-12-01T00:00:00Z" })], "week", NOW)).toHaveLength(1);
});
