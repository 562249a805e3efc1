// What state a thing is in: one word, one shape, one sentence that says why, and what to do about it. Pure, but for
// deployments, which are as well as what is live of them.

import { deploymentHealth } from "./deployments/live";
import type { Agent, Condition, CronTask, Deployment, Item, Pack, Plural, Policy, Registry, Runtime, Task } from "./plane/types";

export type Shape = "running" | "waiting" | "done" | "failed" | "suspended" | "degraded";

/** The next step: words, and a page or a command that goes with them. */
export interface Todo {
  text: string;
  label?: string;
  to?: string;
  command?: string;
}

export interface Health {
  shape: Shape;
  word: string;
  /** Why, when it is not as one would wish. */
  why?: string;
  todo?: Todo;
}

const condition = (item: Item, type: string): Condition | undefined => item.conditions.find((one) => one.type === type);

export function healthOf(plural: Plural, item: Item): Health {
  if (item.deletionTimestamp) return { shape: "waiting", word: "Deleting" };
  const health = stateOf(plural, item);
  return health.why ? { ...health, todo: todoFor(plural, item) } : health;
}

function stateOf(plural: Plural, item: Item): Health {
  switch (plural) {
    case "tasks":
      return taskHealth(item as Task);
    case "agents":
      return agentHealth(item as Agent);
    case "crontasks":
      return cronHealth(item as CronTask);
    case "promptpacks":
      return phaseHealth(item as Pack, "done");
    case "agentruntimes":
      return runtimeHealth(item as Runtime);
    case "toolregistries":
      return registryHealth(item as Registry);
    case "agentpolicies":
      return policyHealth(item as Policy);
    case "packdeployments":
      return deploymentHealth(item as Deployment);
    case "providers":
      return phaseHealth(item, "done");
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
      return { shape: "failed", word: "Failed", why: problem(task) ?? "The Task ended without success." };
    default:
      return { shape: "waiting", word: task.phase, why: queued?.status === "True" ? queued.message : problem(task) };
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
  if (ready?.status === "False") return { shape: "degraded", word: "Not ready", why: ready.message };
  return (cron.active ?? 0) > 0 ? { shape: "running", word: "Active" } : { shape: "done", word: "Scheduled" };
}

/** Kinds that say in one word how they are: all is well unless it is one of these. */
function phaseHealth(item: Item & { phase?: string }, well: Shape): Health {
  const phase = item.phase ?? "Pending";
  const shapes: Record<string, Shape> = { Pending: "waiting", Failed: "failed", Error: "failed", Degraded: "degraded", Canary: "running" };
  const shape = shapes[phase] ?? well;
  return { shape, word: phase, why: shape === well || phase === "Canary" ? undefined : problem(item) };
}

function runtimeHealth(runtime: Runtime): Health {
  if (runtime.replicas?.desired === 0) return { shape: "suspended", word: "Scaled to 0" };
  return phaseHealth(runtime, "running");
}

function registryHealth(registry: Registry): Health {
  const health = phaseHealth(registry, "done");
  const bad = registry.discoveredTools?.find((tool) => tool.status === "Unavailable");
  return bad ? { ...health, why: `${bad.name}: ${bad.error ?? bad.reason ?? "cannot be had"}` } : health;
}

function policyHealth(policy: Policy): Health {
  const enforced = condition(policy, "Enforced");
  if (policy.mode === "permissive") return { shape: "suspended", word: "Permissive", why: enforced?.message };
  return enforced?.status === "False" ? { shape: "failed", word: "Not enforced", why: enforced.message } : phaseHealth(policy, "done");
}

function templateHealth(item: Item): Health {
  const ready = condition(item, "Ready");
  return ready?.status === "False" ? { shape: "degraded", word: "Not valid", why: ready.message } : { shape: "done", word: "Valid" };
}

const NOT_PROBLEMS = ["Queued", "Suspended", "Stopped", "Complete"];
const blocking = (item: Item) =>
  item.conditions.find((one) => one.type === "Failed" && one.status === "True") ?? item.conditions.find((one) => one.status === "False" && !NOT_PROBLEMS.includes(one.type));

/** The first condition that says something is wrong. */
function problem(item: Item): string | undefined {
  const bad = blocking(item);
  return bad?.message || bad?.reason;
}

/** The next step, from the reason that stands in the way. */
function todoFor(plural: Plural, item: Item): Todo | undefined {
  const queued = condition(item, "Queued");
  const suspended = condition(item, "Suspended");
  const bad = (queued?.status === "True" ? queued : undefined) ?? blocking(item) ?? (suspended?.status === "True" ? suspended : undefined);
  const task = plural === "tasks" ? (item as Task) : undefined;
  const at = task?.agentRef ? { kind: "agent", route: "agents", name: task.agentRef.name } : { kind: "agenttemplate", route: "templates", name: task?.templateRef?.name ?? "" };
  const runner = { label: at.name, to: `/${at.route}/${item.namespace}/${at.name}` };
  switch (bad?.reason) {
    case "AgentAtCapacity":
      return { text: "It starts by itself when another Task ends. Or raise spec.maxConcurrentTasks of", ...runner };
    case "QuotaExceeded":
      return { text: "It starts by itself when the window has moved on. Or raise spec.quota of", ...runner };
    case "AgentSuspended":
      return { text: "It waits until the Agent is resumed:", command: `orrery resume agent ${at.name} -n ${item.namespace}` };
    case "AgentServerNotReady":
      return { text: "It waits for the Agent, whose page says what is wrong:", ...runner };
    case "UserRequested":
      return { text: "Resume it to let it work again." };
    case "Standby":
      return { text: "Nothing to do: the next Task wakes it." };
    case "Stopped":
    case "UserStopped":
      return undefined;
    case "ErrImagePull":
    case "ImagePullBackOff":
    case "InvalidImageName":
      return { text: "Check the image's name. On this machine, import it:", command: "orrery image import FILE" };
    case "MaxRetainedTasksReached":
      return { text: "Delete finished Tasks, raise spec.maxRetainedTasks, or set cleanup on the", label: "Config page", to: "/config" };
    case "InvalidSchedule":
      return { text: "Mend spec.schedule or spec.timeZone on the YAML tab." };
    case "PodLost":
      return { text: "Its Pod was deleted or its node is gone. Create the Task again if it is still wanted." };
    case "OOMKilled":
      return { text: "Raise spec.podSpec.resources.limits.memory of", ...runner };
    case "PromptPackNotFound":
    case "ToolRegistryNotFound":
    case "ProviderNotFound":
    case "AgentPolicyNotFound":
      return { text: "Apply what is missing; it is found by itself." };
    case "VersionMismatch":
      return { text: "Write both: the content's version and spec.version of the pack." };
    case "SourceValidationFailed":
    case "SchemaValidationFailed":
      return { text: "Mend the ConfigMap that the message names; agents keep the version they have." };
    case "Invalid":
    case "AgentError":
    case "ContextError":
      return { text: "Mend what the message names; it is looked at again by itself." };
    default:
      return task?.phase === "Failed" && task.podName ? { text: "The end of its log says more.", label: "Open the log", to: `/tasks/${item.namespace}/${item.name}?tab=logs` } : undefined;
  }
}

/** Whether a person should look at it now. */
export function needsAttention(plural: Plural, item: Item): boolean {
  const { shape } = healthOf(plural, item);
  return shape === "failed" || shape === "degraded";
}
