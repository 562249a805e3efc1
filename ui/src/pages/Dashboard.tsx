// Overview: what needs attention first, then what runs now, then how it has been going.

import { Link } from "react-router";
import { Chart, type Bar } from "../parts/Chart";
import { Badge, Command, Age, useNow } from "../parts/common";
import { count, duration } from "../format";
import { healthOf, needsAttention } from "../health";
import { cost, KIND_LIST, KINDS, linkTo, runtime, tokens } from "../kinds";
import { useList, useLoaded } from "../plane/store";
import type { Item, Task } from "../plane/types";

const DAY = 24 * 60 * 60 * 1000;

export function Dashboard() {
  const tasks = useList("tasks");
  const agents = useList("agents");
  const schedules = useList("crontasks");
  const templates = useList("agenttemplates");
  const loaded = [useLoaded("tasks"), useLoaded("agents"), useLoaded("crontasks"), useLoaded("agenttemplates")].every(Boolean);
  const now = useNow();
  if (loaded && tasks.length + agents.length + schedules.length + templates.length === 0) return <Begin />;
  const recent = tasks.filter((task) => now - Date.parse(task.createdAt) < DAY);
  const attention = [
    ...agents.filter((agent) => needsAttention("agents", agent)).map((item) => ({ kind: KIND_LIST[2]!, item: item as Item })),
    ...schedules.filter((cron) => needsAttention("crontasks", cron)).map((item) => ({ kind: KIND_LIST[1]!, item: item as Item })),
    ...recent.filter((task) => needsAttention("tasks", task)).map((item) => ({ kind: KIND_LIST[0]!, item: item as Item })),
  ];
  const active = tasks.filter((task) => task.phase === "Running" || task.phase === "Queued");
  return (
    <>
      <div className="head"><h1>Overview</h1></div>
      <h2>Needs attention</h2>
      {attention.length === 0 ? <p className="quiet">Nothing. Everything is as it was asked to be.</p> : null}
      <table className="plain"><tbody>{attention.slice(0, 12).map(({ kind, item }) => {
        const health = healthOf(kind.plural, item);
        return <tr key={item.uid}><td><Badge health={health} /></td><td>{kind.one} <Link className="mono" to={linkTo(kind, item)}>{item.name}</Link></td><td className="quiet">{health.why}</td></tr>;
      })}</tbody></table>
      <h2>Running and waiting</h2>
      {active.length === 0 ? <p className="quiet">No Task runs or waits.</p> : null}
      <table className="plain"><tbody>{active.slice(0, 20).map((task) => (
        <tr key={task.uid}><td><Badge health={healthOf("tasks", task)} /></td><td><Link className="mono" to={linkTo(KINDS.tasks, task)}>{task.name}</Link></td><td className="mono">{task.agentRef?.name ?? task.templateRef?.name}</td><td className="mono">{task.phase === "Running" ? runtime(task, now) : <Age at={task.createdAt} />}</td><td className="quiet">{healthOf("tasks", task).why}</td></tr>
      ))}</tbody></table>
      <h2>Tasks in the last 24 hours, by outcome</h2>
      <Chart bars={byHour(recent, now)} />
      <Numbers tasks={recent} />
    </>
  );
}

function Numbers({ tasks }: { tasks: Task[] }) {
  const waits = tasks.filter((task) => task.startTime).map((task) => (Date.parse(task.startTime!) - Date.parse(task.createdAt)) / 1000).sort((a, b) => a - b);
  const wait = waits[Math.floor(waits.length * 0.95)];
  const used = tasks.reduce((sum, task) => sum + tokens(task), 0);
  const spent = tasks.reduce((sum, task) => sum + cost(task), 0);
  const facts: [string, string][] = [["Tasks", count(tasks.length)], ["Failed", count(tasks.filter((task) => task.phase === "Failed").length)], ["Wait, 95 of 100 at most", wait === undefined ? "–" : duration(wait)], ["Tokens", count(used)], ["Cost", `$${spent.toFixed(2)}`]];
  return <dl className="facts" style={{ marginTop: 16 }}>{facts.map(([title, value]) => <div key={title}><dt>{title}</dt><dd className="mono">{value}</dd></div>)}</dl>;
}

function byHour(tasks: Task[], now: number): Bar[] {
  const hour = DAY / 24;
  const first = Math.floor((now - DAY) / hour) * hour + hour;
  return Array.from({ length: 24 }, (_, index) => {
    const start = first + index * hour;
    const inside = tasks.filter((task) => Date.parse(task.createdAt) >= start && Date.parse(task.createdAt) < start + hour);
    const of = (...phases: string[]) => inside.filter((task) => phases.includes(task.phase)).length;
    return { label: new Date(start).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" }), parts: [{ name: "done", value: of("Completed") }, { name: "failed", value: of("Failed") }, { name: "running", value: of("Running", "Queued", "Pending") }] };
  });
}

function Begin() {
  return (
    <>
      <div className="head"><h1>Nothing runs here yet</h1></div>
      <div className="empty">
        <p>Three ways to begin. Each works as it stands, in the terminal next to this page.</p>
        <p><b>Ask for something.</b> A Task runs in a Pod of its own and ends.</p>
        <Command text={'orrery run "Say hello and list the files you see"'} />
        <p><b>Bring what you have.</b> Manifests for KubeOpenCode work unchanged.</p>
        <Command text="kubectl apply -f your-agents.yaml" />
        <p><b>Look around.</b> Every field explains itself.</p>
        <Command text="kubectl explain agent.spec" />
      </div>
    </>
  );
}
