import { expect, test } from "vitest";
import { healthOf, needsAttention } from "./health";
import { Store } from "./plane/store";
import type { Agent, Task } from "./plane/types";

const base = { name: "a", namespace: "default", uid: "1", resourceVersion: "1", createdAt: "2026-01-01T00:00:00Z", conditions: [] };

test("a queued Task says what it waits for", () => {
  const task: Task = { ...base, phase: "Queued", agentRef: { name: "reviewer" }, conditions: [{ type: "Queued", status: "True", reason: "AgentAtCapacity", message: "at capacity (1/1)" }] };
  expect(healthOf("tasks", task)).toMatchObject({ shape: "waiting", word: "Queued", why: "at capacity (1/1)", todo: { label: "reviewer", to: "/agents/default/reviewer" } });
  expect(needsAttention("tasks", task)).toBe(false);
});

test("a failed Task always has a why", () => {
  expect(healthOf("tasks", { ...base, phase: "Failed" } as Task).why).toBeTruthy();
});

test("a stopped Task is done, not completed", () => {
  const task: Task = { ...base, phase: "Completed", conditions: [{ type: "Stopped", status: "True", message: "stopped by a user" }] };
  expect(healthOf("tasks", task).word).toBe("Stopped");
});

test("an agent that is not ready needs attention, a suspended one does not", () => {
  const agent: Agent = { ...base, credentials: [], serverStatus: { port: 4096, ready: false } };
  expect(needsAttention("agents", agent)).toBe(true);
  expect(needsAttention("agents", { ...agent, suspend: true } as Agent)).toBe(false);
});

test("a snapshot replaces only what it covers", () => {
  const store = new Store();
  store.snapshot({ kind: "tasks", namespace: null, items: [{ ...base, name: "a" }, { ...base, name: "b", namespace: "team" }] });
  store.snapshot({ kind: "tasks", namespace: "team", items: [] });
  expect(store.list("tasks").map((task) => task.name)).toEqual(["a"]);
  store.change({ kind: "tasks", type: "DELETED", object: { ...base, name: "a" } });
  expect(store.list("tasks")).toEqual([]);
});
