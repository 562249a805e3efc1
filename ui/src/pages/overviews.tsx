// What the Overview tab and the rail show, by kind.

import { lazy, Suspense, useEffect, useState } from "react";
import { Link } from "react-router";
import { Badge, Age } from "../parts/common";
import { AgentTree, TaskTree } from "../parts/Tree";
import { duration, exact } from "../format";
import { healthOf } from "../health";
import { KINDS, linkTo, runtime } from "../kinds";
import { OMNIA } from "../omnia/kinds";
import { request } from "../plane/api";
import { useList } from "../plane/store";
import type { Agent, CronTask, Deployment, Item, Plural, Task } from "../plane/types";
import { useNow } from "../parts/common";

const OmniaOverview = lazy(() => import("../omnia/overviews").then((module) => ({ default: module.OmniaOverview })));
const DeploymentOverview = lazy(() => import("../deployments/Overview").then((module) => ({ default: module.DeploymentOverview })));

export function OverviewTab({ plural, item }: { plural: Plural; item: Item }) {
  return (
    <>
      {plural === "tasks" ? <TaskOverview task={item as Task} /> : null}
      {plural === "agents" ? <AgentOverview agent={item as Agent} /> : null}
      {plural === "crontasks" ? <CronOverview cron={item as CronTask} /> : null}
      {plural === "agenttemplates" ? <TemplateOverview item={item} /> : null}
      {plural === "packdeployments" ? <Suspense><DeploymentOverview deployment={item as Deployment} /></Suspense> : null}
      {plural in OMNIA ? <Suspense><OmniaOverview plural={plural} item={item} /></Suspense> : null}
      <Conditions item={item} />
    </>
  );
}

export function Rail({ plural, item }: { plural: Plural; item: Item }) {
  if (plural === "tasks") return <Timeline task={item as Task} />;
  if (plural === "agents") return <Capacity agent={item as Agent} />;
  if (plural === "crontasks") return <NextRuns cron={item as CronTask} />;
  return null;
}

function TaskOverview({ task }: { task: Task }) {
  const summary = task.session?.summary;
  return (
    <>
      <h2>What to do</h2>
      <pre className="pre">{task.description ?? "No description: the agent has only its contexts."}</pre>
      <h2>What it is made of</h2>
      <TaskTree task={task} />
      {task.contexts?.length ? (
        <>
          <h2>Contexts</h2>
          <table className="plain stacks"><tbody>{task.contexts.map((context, index) => <tr key={index}><td>{context.type}</td><td className="mono">{context.name ?? "–"}</td><td className="mono">{context.mountPath ?? "context.md"}</td><td className="long">{context.text ? <details><summary>{context.text.split("\n")[0]?.slice(0, 80)}</summary><pre className="pre">{context.text}</pre></details> : null}</td></tr>)}</tbody></table>
        </>
      ) : null}
      {summary ? (
        <>
          <h2>Session</h2>
          <p>{summary.messageCount ?? 0} messages · {summary.filesChanged ?? 0} files changed, <span className="done">+{summary.additions ?? 0}</span> <span className="failed">−{summary.deletions ?? 0}</span></p>
        </>
      ) : null}
    </>
  );
}

function Timeline({ task }: { task: Task }) {
  const now = useNow();
  const waited = task.startTime ? (Date.parse(task.startTime) - Date.parse(task.createdAt)) / 1000 : undefined;
  return (
    <>
      <h2>Timeline</h2>
      <ol className="timeline">
        <li>Created <Age at={task.createdAt} /> ago</li>
        {task.startTime ? <li>Started after {duration(waited ?? 0)} of waiting</li> : task.phase === "Failed" ? null : <li>{task.phase} for <Age at={task.createdAt} /></li>}
        {!task.startTime && task.phase === "Failed" ? <li>Failed before it started</li> : null}
        {task.startTime ? <li>{task.completionTime ? `${healthOf("tasks", task).word} after ${runtime(task, now)}` : `Running for ${runtime(task, now)}`}</li> : null}
      </ol>
    </>
  );
}

function AgentOverview({ agent }: { agent: Agent }) {
  const tasks = useList("tasks").filter((task) => task.namespace === agent.namespace && task.agentRef?.name === agent.name);
  return (
    <>
      {agent.profile ? <p>{agent.profile}</p> : null}
      <h2>What it is made of</h2>
      <AgentTree agent={agent} />
      <TaskList title="Last Tasks" tasks={tasks.slice(0, 10)} />
    </>
  );
}

function Capacity({ agent }: { agent: Agent }) {
  const running = useList("tasks").filter((task) => task.namespace === agent.namespace && task.agentRef?.name === agent.name && task.phase === "Running").length;
  const now = useNow();
  const quota = agent.quota;
  const started = quota ? (agent.taskStartHistory ?? []).filter((start) => now - Date.parse(start.startTime) < quota.windowSeconds * 1000).length : 0;
  return (
    <>
      <h2>Capacity</h2>
      <Meter label={`${running} of ${agent.maxConcurrentTasks || "any number of"} Tasks run`} part={agent.maxConcurrentTasks ? running / agent.maxConcurrentTasks : 0} />
      {quota ? <Meter label={`${started} of ${quota.maxTaskStarts} starts in the last ${duration(quota.windowSeconds)}`} part={started / quota.maxTaskStarts} /> : null}
    </>
  );
}

function Meter({ label, part }: { label: string; part: number }) {
  return <div style={{ marginBottom: 12 }}>{label}<div className="meter" role="img" aria-label={label}><span style={{ width: `${Math.min(1, part) * 100}%` }} /></div></div>;
}

function CronOverview({ cron }: { cron: CronTask }) {
  const tasks = useList("tasks").filter((task) => task.namespace === cron.namespace && task.labels?.["kubeopencode.io/crontask"] === cron.name);
  const template = cron.taskTemplate?.spec;
  return (
    <>
      <h2>Every run does this</h2>
      <pre className="pre">{template?.description ?? "No description: the agent has only its contexts."}</pre>
      <TaskList title="Runs" tasks={tasks.slice(0, 50)} />
    </>
  );
}

/** When it runs next, as far as one cares. */
function NextRuns({ cron }: { cron: CronTask }) {
  const [runs, setRuns] = useState<string[]>([]);
  useEffect(() => {
    request<{ schedules: { name: string; runs: string[] }[] }>(`/upcoming?hours=744&namespace=${encodeURIComponent(cron.namespace)}`).then(
      (answer) => setRuns(answer.schedules.find((one) => one.name === cron.name)?.runs ?? []),
      () => setRuns([]),
    );
  }, [cron.namespace, cron.name, cron.schedule, cron.timeZone, cron.suspend, cron.nextScheduleTime]);
  const zone = cron.timeZone ?? "UTC";
  return (
    <>
      <h2>Next runs, in {zone}</h2>
      {cron.suspend ? <p className="quiet">None while it is suspended.</p> : null}
      <ol className="timeline">{runs.slice(0, 5).map((run) => <li key={run} title={exact(run)}><span className="mono">{new Date(run).toLocaleString(undefined, { timeZone: zone, weekday: "short", day: "2-digit", month: "short", hour: "2-digit", minute: "2-digit", hour12: false })}</span></li>)}</ol>
    </>
  );
}

function TemplateOverview({ item }: { item: Item }) {
  const agents = useList("agents").filter((agent) => agent.namespace === item.namespace && agent.templateRef?.name === item.name);
  const tasks = useList("tasks").filter((task) => task.namespace === item.namespace && task.templateRef?.name === item.name);
  return (
    <>
      <h2>Agents that follow it</h2>
      {agents.length === 0 ? <p className="quiet">None.</p> : <ul className="tree">{agents.map((agent) => <li key={agent.uid}><div className="node"><Badge health={healthOf("agents", agent)} /><Link className="mono" to={linkTo(KINDS.agents, agent)}>{agent.name}</Link></div></li>)}</ul>}
      <TaskList title="Tasks made from it" tasks={tasks.slice(0, 20)} />
    </>
  );
}

function TaskList({ title, tasks }: { title: string; tasks: Task[] }) {
  const now = useNow();
  return (
    <>
      <h2>{title}</h2>
      {tasks.length === 0 ? <p className="quiet">None yet.</p> : null}
      <table className="plain"><tbody>{tasks.map((task) => <tr key={task.uid}><td><Badge health={healthOf("tasks", task)} /></td><td><Link className="mono" to={linkTo(KINDS.tasks, task)}>{task.name}</Link></td><td className="mono">{runtime(task, now)}</td><td className="quiet"><Age at={task.createdAt} /></td></tr>)}</tbody></table>
    </>
  );
}

function Conditions({ item }: { item: Item }) {
  if (item.conditions.length === 0) return null;
  return (
    <>
      <h2>Conditions</h2>
      <table className="plain stacks">
        <thead><tr><th>Condition</th><th>Status</th><th>Reason</th><th>Message</th><th>Since</th></tr></thead>
        <tbody>{item.conditions.map((condition) => <tr key={condition.type}><td>{condition.type}</td><td>{condition.status}</td><td>{condition.reason}</td><td className="long">{condition.message}</td><td className="quiet"><Age at={condition.lastTransitionTime} /></td></tr>)}</tbody>
      </table>
    </>
  );
}
