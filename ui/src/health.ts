// What state a thing is in, in one word, one shape and one sentence that says why. Pure.

import type { Agent, Condition, CronTask, Item, Plural, Task } from "./plane/types";

export type Shape = "running" | "waiting" | "done" | "failed" | "suspended" | "degraded";

export interface Health {
  shape: Shape;
  word: string;
  /** Why, when it is not as one would wish. */
  why?: string;
}

const condition = (item: Item, type: string): Condition | undefined => item.conditions.find((one) => one.type === type);

export function healthOf(plural: Plural, item: Item): Health {
  if (item.deletionTimestamp) return { shape: "waiting", word: "Deleting" };
  switch (plural) {
    case "tasks":
      return taskHealth(item as Task);
    case "agents":
      return agentHealth(item as Agent);
    case "crontasks":
      return cronHealth(item as CronTask);
    default:
      return templateHealth(item);
  }
}

function taskHealth(task: Task): Health {
  const queued = condition(task, "Queued");
  switch (task.phase) {
    case "Running":
      return { shape: "running", word: "Running", why: problem(task) };
    case "Completed": {
      const stopped = condition(task, "Stopped");
      return stopped?.status === "True" ? { shape: "done", word: "Stopped", why: stopped.message } : { shape: "done", word: "Completed" };
    }
    case "Failed":
      return { shape: "failed", word: "Failed", why: problem(task) ?? "The Task ended without success. Its log says more." };
    default:
      return { shape: "waiting", word: task.phase, why: queued?.status === "True" ? queued.message : undefined };
  }
}

function agentHealth(agent: Agent): Health {
  const ready = condition(agent, "ServerReady");
  if (agent.serverStatus.suspended || agent.suspend) return { shape: "suspended", word: "Suspended", why: condition(agent, "Suspended")?.message };
  if (agent.serverStatus.ready) return { shape: "running", word: "Ready" };
  return { shape: "degraded", word: "Not ready", why: problem(agent) ?? ready?.message ?? "The server is starting." };
}

function cronHealth(cron: CronTask): Health {
  const ready = condition(cron, "Ready");
  if (cron.suspend) return { shape: "suspended", word: "Suspended" };
  if (ready?.status === "False") return { shape: "degraded", word: ready.reason ?? "Not ready", why: ready.message };
  return (cron.active ?? 0) > 0 ? { shape: "running", word: "Active" } : { shape: "done", word: "Scheduled" };
}

function templateHealth(item: Item): Health {
  const ready = condition(item, "Ready");
  return ready?.status === "False" ? { shape: "degraded", word: ready.reason ?? "Not ready", why: ready.message } : { shape: "done", word: "Valid" };
}

/** The first condition that says something is wrong. */
function problem(item: Item): string | undefined {
  const bad = item.conditions.find((one) => (one.type === "Failed" && one.status === "True") || (one.status === "False" && one.type !== "Queued" && one.type !== "Suspended" && one.type !== "Stopped" && one.type !== "Complete"));
  return bad?.message || bad?.reason;
}

/** Whether a person should look at it now. */
export function needsAttention(plural: Plural, item: Item): boolean {
  const { shape } = healthOf(plural, item);
  return shape === "failed" || shape === "degraded";
}
