// The table of kinds: columns, facts, actions and commands. Pages are made from it, not written one by one.

import { Link } from "react-router";
import { AGENT, apply, CRON_TASK, TASK, TEMPLATE } from "./begin";
import { packdeployments } from "./deployments/kind";
import { age, count, duration, short, until } from "./format";
import { act, ageColumn, namespaceColumn, type Kind } from "./kind";
import { OMNIA } from "./omnia/kinds";
import { store } from "./plane/store";
import type { Agent, CronTask, Item, KindMap, Plural, Task, Template } from "./plane/types";

const ended = (task: Task) => task.phase === "Completed" || task.phase === "Failed";

export function runtime(task: Task, now: number): string {
  if (!task.startTime) return "–";
  const end = task.completionTime ? Date.parse(task.completionTime) : now;
  return duration((end - Date.parse(task.startTime)) / 1000);
}

export function tokens(task: Task): number {
  const usage = task.session?.summary?.tokenUsage;
  return (usage?.input ?? 0) + (usage?.output ?? 0) + (usage?.reasoning ?? 0);
}

export function cost(task: Task): number {
  return Number(task.session?.summary?.cost ?? 0);
}

const money = (value: number) => (value > 0 ? `$${value.toFixed(2)}` : "–");
const where = (task: Task) => task.agentRef?.name ?? (task.templateRef ? `template ${task.templateRef.name}` : "–");

const tasks: Kind<Task> = {
  plural: "tasks",
  route: "tasks",
  title: "Tasks",
  one: "Task",
  resource: "task",
  key: "t",
  block: "work",
  columns: [
    namespaceColumn,
    { title: "Runs on", width: "minmax(110px, 1fr)", cell: (task) => <span className="mono cut">{where(task)}</span> },
    { title: "Time", width: "72px", wide: true, cell: (task, now) => <span className="mono">{runtime(task, now)}</span> },
    { title: "Tokens", width: "72px", wide: true, spare: true, cell: (task) => <span className="mono">{tokens(task) ? short(tokens(task)) : "–"}</span> },
    { title: "Cost", width: "64px", wide: true, spare: true, cell: (task) => <span className="mono">{money(cost(task))}</span> },
    ageColumn,
  ],
  facts: (task, now) => [
    [task.agentRef ? "Agent" : "Template", task.agentRef ? <Link className="mono" to={`/agents/${task.namespace}/${task.agentRef.name}`}>{task.agentRef.name}</Link> : task.templateRef ? <Link className="mono" to={`/templates/${task.namespace}/${task.templateRef.name}`}>{task.templateRef.name}</Link> : "–"],
    ["Time", <span className="mono">{runtime(task, now)}</span>],
    ["Timeout", <span className="mono">{task.timeout ?? "none"}</span>],
    ["Tokens", <span className="mono">{tokens(task) ? count(tokens(task)) : "–"}</span>],
    ["Cost", <span className="mono">{money(cost(task))}</span>],
    ["Pod", <span className="mono cut">{task.podName ?? "–"}</span>],
  ],
  actions: [
    {
      label: "Stop",
      means: "Its Pod gets a moment to end; the Task becomes Completed and its log is kept.",
      command: (task) => `kubectl annotate task ${task.name} -n ${task.namespace} kubeopencode.io/stop=true`,
      run: (task) => act("tasks", task, "stop"),
      refused: (task) => (ended(task) ? "It has ended already." : undefined),
    },
  ],
  tabs: ["Logs"],
  commands: (task) => [`orrery why task ${task.name} -n ${task.namespace}`, `orrery logs ${task.name} -n ${task.namespace}`, `kubectl describe task ${task.name} -n ${task.namespace}`],
  deletes: "the Task, its Pod and its context files",
  empty: [{ text: "A Task is one piece of work for an agent. Create one here with +, or like this:", command: apply(TEMPLATE, TASK) }],
};

const cronTasks: Kind<CronTask> = {
  plural: "crontasks",
  route: "schedules",
  title: "Schedules",
  one: "CronTask",
  resource: "crontask",
  key: "s",
  block: "work",
  columns: [
    namespaceColumn,
    { title: "Schedule", width: "minmax(110px, 1fr)", cell: (cron) => <span className="mono cut">{cron.schedule}</span> },
    { title: "Zone", width: "minmax(80px, 0.7fr)", wide: true, spare: true, cell: (cron) => <span className="quiet cut">{cron.timeZone ?? "UTC"}</span> },
    { title: "Last", width: "64px", wide: true, spare: true, cell: (cron, now) => <span className="mono">{age(cron.lastScheduleTime, now)}</span> },
    { title: "Next", width: "72px", cell: (cron, now) => <span className="mono">{cron.suspend ? "–" : until(cron.nextScheduleTime, now)}</span> },
    ageColumn,
  ],
  facts: (cron, now) => [
    ["Schedule", <span className="mono">{cron.schedule}</span>],
    ["Time zone", cron.timeZone ?? "UTC"],
    ["Next run", <span className="mono">{cron.suspend ? "suspended" : until(cron.nextScheduleTime, now)}</span>],
    ["Last run", <span className="mono">{age(cron.lastScheduleTime, now)}</span>],
    ["Active", <span className="mono">{cron.active ?? 0}</span>],
    ["Runs so far", <span className="mono">{count(cron.totalExecutions ?? 0)}</span>],
  ],
  actions: [
    {
      label: "Run now",
      means: "It creates one Task at once; the schedule stays as it is.",
      command: (cron) => `kubectl annotate crontask ${cron.name} -n ${cron.namespace} kubeopencode.io/trigger=true`,
      run: (cron) => act("crontasks", cron, "trigger"),
      refused: (cron) => (cron.suspend ? "It is suspended. Resume it first." : undefined),
    },
    {
      label: "Suspend",
      means: "It creates no Tasks until it is resumed; a Task that runs goes on.",
      command: (cron) => `kubectl patch crontask ${cron.name} -n ${cron.namespace} --type=merge -p '{"spec":{"suspend":true}}'`,
      run: (cron) => act("crontasks", cron, "suspend"),
      refused: (cron) => (cron.suspend ? "It is suspended already." : undefined),
    },
    {
      label: "Resume",
      command: (cron) => `kubectl patch crontask ${cron.name} -n ${cron.namespace} --type=merge -p '{"spec":{"suspend":false}}'`,
      run: (cron) => act("crontasks", cron, "resume"),
      refused: (cron) => (cron.suspend ? undefined : "It is not suspended."),
    },
  ],
  tabs: [],
  commands: (cron) => [`orrery why crontask ${cron.name} -n ${cron.namespace}`, `kubectl get tasks -n ${cron.namespace} -l kubeopencode.io/crontask=${cron.name}`, `kubectl describe crontask ${cron.name} -n ${cron.namespace}`],
  deletes: "the schedule and every Task it created",
  empty: [{ text: "A CronTask creates Tasks on a schedule:", command: apply(TEMPLATE, CRON_TASK) }],
};

const busy = (agent: Agent) => store.list("tasks").filter((task) => task.phase === "Running" && task.namespace === agent.namespace && task.agentRef?.name === agent.name).length;

const agents: Kind<Agent> = {
  plural: "agents",
  route: "agents",
  title: "Agents",
  one: "Agent",
  resource: "agent",
  key: "a",
  block: "work",
  columns: [
    namespaceColumn,
    { title: "Profile", width: "minmax(140px, 2fr)", wide: true, spare: true, cell: (agent) => <span className="quiet cut">{agent.profile ?? "–"}</span> },
    { title: "Template", width: "minmax(100px, 1fr)", wide: true, spare: true, cell: (agent) => <span className="mono cut">{agent.templateRef?.name ?? "–"}</span> },
    { title: "Tasks", width: "72px", cell: (agent) => <span className="mono" title="running of most at once">{`${busy(agent)} / ${agent.maxConcurrentTasks || "∞"}`}</span> },
    ageColumn,
  ],
  facts: (agent) => [
    ["Template", agent.templateRef ? <Link className="mono" to={`/templates/${agent.namespace}/${agent.templateRef.name}`}>{agent.templateRef.name}</Link> : "none"],
    ["Address", <span className="mono cut" title={agent.serverStatus.url}>{agent.serverStatus.url ?? "–"}</span>],
    ["Workspace", <span className="mono">{agent.workspaceDir ?? "/workspace"}</span>],
    ["Service account", <span className="mono cut">{agent.serviceAccountName ?? "from template"}</span>],
    ["Most Tasks at once", <span className="mono">{agent.maxConcurrentTasks || "no limit"}</span>],
    ["Starts", <span className="mono">{agent.quota ? `${agent.quota.maxTaskStarts} in ${duration(agent.quota.windowSeconds)}` : "no limit"}</span>],
  ],
  actions: [
    {
      label: "Suspend",
      means: "Its Pods end; new Tasks wait until it is resumed. It is refused while Tasks run.",
      command: (agent) => `kubectl patch agent ${agent.name} -n ${agent.namespace} --type=merge -p '{"spec":{"suspend":true}}'`,
      run: (agent) => act("agents", agent, "suspend"),
      refused: (agent) => (agent.suspend ? "It is suspended already." : undefined),
    },
    {
      label: "Resume",
      command: (agent) => `kubectl patch agent ${agent.name} -n ${agent.namespace} --type=merge -p '{"spec":{"suspend":false}}'`,
      run: (agent) => act("agents", agent, "resume"),
      refused: (agent) => (agent.suspend ? undefined : "It is not suspended."),
    },
  ],
  tabs: ["Terminal"],
  runs: "agent",
  commands: (agent) => [`orrery why agent ${agent.name} -n ${agent.namespace}`, `kubectl describe agent ${agent.name} -n ${agent.namespace}`],
  deletes: "the Agent, its Deployment, Service and Pods",
  loses: (agent) => (agent.persistence?.sessions || agent.persistence?.workspace ? "The sessions and the workspace on its volumes are lost with it." : undefined),
  empty: [{ text: "An Agent is a running OpenCode server that Tasks attach to:", command: apply(AGENT) }],
};

const followers = (template: Template) => store.list("agents").filter((agent) => agent.namespace === template.namespace && agent.templateRef?.name === template.name).length;

const templates: Kind<Template> = {
  plural: "agenttemplates",
  route: "templates",
  title: "Templates",
  one: "AgentTemplate",
  resource: "agenttemplate",
  key: "m",
  block: "work",
  columns: [
    namespaceColumn,
    { title: "Image", width: "minmax(140px, 2fr)", wide: true, cell: (template) => <span className="mono quiet cut">{template.executorImage ?? "default"}</span> },
    { title: "Agents", width: "64px", cell: (template) => <span className="mono">{followers(template)}</span> },
    { title: "Workspace", width: "minmax(90px, 1fr)", wide: true, spare: true, cell: (template) => <span className="mono cut">{template.workspaceDir}</span> },
    ageColumn,
  ],
  facts: (template) => [
    ["Image", <span className="mono cut" title={template.executorImage}>{template.executorImage ?? "default"}</span>],
    ["Workspace", <span className="mono">{template.workspaceDir}</span>],
    ["Service account", <span className="mono cut">{template.serviceAccountName}</span>],
    ["Most Tasks at once", <span className="mono">{template.maxConcurrentTasks || "no limit"}</span>],
    ["Starts", <span className="mono">{template.quota ? `${template.quota.maxTaskStarts} in ${duration(template.quota.windowSeconds)}` : "no limit"}</span>],
  ],
  actions: [],
  tabs: [],
  runs: "template",
  commands: (template) => [`orrery why agenttemplate ${template.name} -n ${template.namespace}`, `kubectl describe agenttemplate ${template.name} -n ${template.namespace}`],
  deletes: "the template. Agents and Tasks that refer to it stop with a reason until it is back",
  empty: [{ text: "A template holds what Agents and one-off Tasks have in common:", command: apply(TEMPLATE) }],
};

export const KINDS: { [P in Plural]: Kind<KindMap[P]> } = { tasks, crontasks: cronTasks, agents, agenttemplates: templates, ...OMNIA, packdeployments };
export const KIND_LIST = Object.values(KINDS) as unknown as Kind<Item>[];
export { linkTo, type Action, type Kind } from "./kind";
