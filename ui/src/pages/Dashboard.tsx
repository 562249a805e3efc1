// Overview: what needs attention first, then what runs now, then how it has been going.

import { Link, useSearchParams } from "react-router";
import { AGENT, apply, TASK, TEMPLATE } from "../begin";
import { Chart } from "../parts/Chart";
import { Age, Badge, Command, Skeleton, useNow } from "../parts/common";
import { count, duration, short } from "../format";
import { healthOf, needsAttention } from "../health";
import { outcomes, queue, RANGES, spent, within, type Range } from "../history";
import { cost, KIND_LIST, KINDS, linkTo, runtime, type Kind } from "../kinds";
import { useList, useLoaded } from "../plane/store";
import type { Item, Task } from "../plane/types";

const DAY = 24 * 60 * 60 * 1000;
const SHOWN = 8;

export function Dashboard() {
  const all = KIND_LIST.map((kind) => ({ kind, items: useList(kind.plural) as Item[], loaded: useLoaded(kind.plural) }));
  const tasks = useList("tasks");
  const now = useNow();
  if (!all.every(({ loaded }) => loaded)) return <><div className="head"><h1>Overview</h1></div><Skeleton /></>;
  if (all.every(({ items }) => items.length === 0)) return <Begin />;
  // What failed yesterday is history, not news.
  const news = (kind: Kind<Item>, item: Item) => needsAttention(kind.plural, item) && (kind.plural !== "tasks" || now - Date.parse(item.createdAt) < DAY);
  const attention = all.flatMap(({ kind, items }) => items.filter((item) => news(kind, item)).map((item) => ({ kind, item })));
  attention.sort((a, b) => Number(a.kind.plural === "tasks") - Number(b.kind.plural === "tasks"));
  const active = tasks.filter((task) => task.phase !== "Completed" && task.phase !== "Failed");
  return (
    <>
      <div className="head"><h1>Overview</h1></div>
      <h2>Needs attention</h2>
      {attention.length === 0 ? <p className="quiet">Nothing. Everything is as it was asked to be.</p> : null}
      {attention.length > 0 ? (
        <ul className="cards">{attention.slice(0, SHOWN).map(({ kind, item }) => {
          const health = healthOf(kind.plural, item);
          return <li key={item.uid}><Badge health={health} /><span className="cut"><Link className="mono" to={linkTo(kind, item)}>{item.name}</Link> <span className="quiet">{kind.one}</span></span><span className="quiet">{health.why}</span><span className="quiet"><Age at={item.createdAt} /></span></li>;
        })}</ul>
      ) : null}
      {attention.length > SHOWN ? <p><Link to="/tasks?state=Failed">and {attention.length - SHOWN} more</Link></p> : null}
      <h2>Running and waiting</h2>
      {active.length === 0 ? <p className="quiet">No Task runs or waits.</p> : null}
      {active.length > 0 ? (
        <ul className="cards">{active.slice(0, SHOWN).map((task) => (
          <li key={task.uid}><Badge health={healthOf("tasks", task)} /><span className="cut"><Link className="mono" to={linkTo(KINDS.tasks, task)}>{task.name}</Link> <span className="quiet">on {task.agentRef?.name ?? task.templateRef?.name}</span></span><span className="quiet">{healthOf("tasks", task).why}</span><span className="mono">{task.phase === "Running" ? runtime(task, now) : <Age at={task.createdAt} />}</span></li>
        ))}</ul>
      ) : null}
      {active.length > SHOWN ? <p><Link to="/tasks">and {active.length - SHOWN} more</Link></p> : null}
      <History tasks={tasks} now={now} />
    </>
  );
}

function History({ tasks, now }: { tasks: Task[]; now: number }) {
  const [parameters, setParameters] = useSearchParams();
  const range: Range = (Object.keys(RANGES) as Range[]).find((one) => one === parameters.get("range")) ?? "day";
  const recent = within(tasks, range, now);
  const waits = recent.filter((task) => task.startTime).map((task) => (Date.parse(task.startTime!) - Date.parse(task.createdAt)) / 1000).sort((a, b) => a - b);
  const wait = waits[Math.min(waits.length - 1, Math.floor(waits.length * 0.95))];
  const waiting = tasks.filter((task) => task.phase === "Queued" || task.phase === "Pending").length;
  const usage = (task: Task) => task.session?.summary?.tokenUsage;
  const used = recent.reduce((sum, task) => sum + (usage(task)?.input ?? 0) + (usage(task)?.output ?? 0) + (usage(task)?.reasoning ?? 0), 0);
  const paid = recent.reduce((sum, task) => sum + cost(task), 0);
  const failed = recent.filter((task) => task.phase === "Failed").length;
  const choose = (value: Range) => setParameters({ range: value }, { replace: true });
  return (
    <>
      <div className="head" style={{ marginTop: 24 }}>
        <h2>How it has been going</h2>
        <div className="grow" />
        <div className="range" role="group" aria-label="Range">{(Object.keys(RANGES) as Range[]).map((one) => <button key={one} type="button" aria-pressed={one === range} onClick={() => choose(one)}>{RANGES[one].label}</button>)}</div>
      </div>
      <div className="charts">
        <Chart title="Tasks by outcome" total={`${count(recent.length)}, ${count(failed)} failed`} bars={outcomes(recent, range, now)} series={[{ name: "completed", colour: "var(--done)" }, { name: "failed", colour: "var(--failed)" }, { name: "open", colour: "var(--running)" }]} />
        <Chart title="Queue length" total={`${count(waiting)} now${wait === undefined ? "" : `, wait p95 ${duration(wait)}`}`} bars={queue(tasks, range, now)} series={[{ name: "waiting", colour: "var(--waiting)" }]} />
        <Chart title="Tokens" total={used > 0 ? short(used) : "none yet"} write={short} bars={spent(recent, range, now, (task) => [usage(task)?.input ?? 0, usage(task)?.output ?? 0, usage(task)?.reasoning ?? 0])} series={[{ name: "input", colour: "var(--accent)" }, { name: "output", colour: "var(--done)" }, { name: "reasoning", colour: "var(--waiting)" }]} />
        <Chart title="Cost" total={paid > 0 ? `$${paid.toFixed(2)}` : "none yet"} write={(value) => `$${value.toFixed(2)}`} bars={spent(recent, range, now, (task) => [cost(task)])} series={[{ name: "dollars", colour: "var(--accent)" }]} />
      </div>
    </>
  );
}

function Begin() {
  return (
    <>
      <div className="head"><h1>Nothing runs here yet</h1></div>
      <div className="empty">
        <p>Three ways to begin. Each works as it stands, in the terminal next to this page.</p>
        <p><b>Run something once.</b> A template says how, a Task says what; it runs in a Pod of its own and ends. No model is needed.</p>
        <Command text={apply(TEMPLATE, TASK)} />
        <p><b>Keep an agent.</b> It stays, and Tasks attach to it: <span className="mono">orrery run "what is here?"</span></p>
        <Command text={apply(AGENT)} />
        <p><b>Look around.</b> Every field explains itself.</p>
        <Command text="kubectl explain agent.spec" />
      </div>
    </>
  );
}
