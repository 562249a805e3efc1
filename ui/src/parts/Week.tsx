// A week of every schedule: what has run and how it ended, and what runs next, in the zone of the person who looks.

import { useEffect, useState } from "react";
import { Link } from "react-router";
import { exact } from "../format";
import { healthOf } from "../health";
import { KINDS, linkTo } from "../kinds";
import { request } from "../plane/api";
import { useList } from "../plane/store";
import type { CronTask, Task } from "../plane/types";
import { Problem, useNarrow, useNow } from "./common";

interface Upcoming {
  schedules: { namespace: string; name: string; runs: string[]; more: boolean }[];
}

const HOUR = 60 * 60 * 1000;
const DAY = 24 * HOUR;
const BEFORE = 2 * DAY;
const AFTER = 5 * DAY;
/** Runs closer than this on the track are one mark. */
const APART = 0.8;

export function Week({ namespace }: { namespace: string }) {
  const schedules = useList("crontasks").filter((cron) => !namespace || cron.namespace === namespace);
  const tasks = useList("tasks");
  const now = useNow();
  const narrow = useNarrow();
  const [upcoming, setUpcoming] = useState<Upcoming>();
  const [error, setError] = useState<Error>();
  // What comes next is other only when a schedule is, or when one has run.
  const version = schedules.map((cron) => `${cron.uid}:${cron.schedule}:${cron.timeZone}:${cron.suspend}:${cron.nextScheduleTime}`).join();
  useEffect(() => {
    request<Upcoming>(`/upcoming?hours=${AFTER / HOUR}`).then(setUpcoming, setError);
  }, [version]);
  const start = now - BEFORE;
  const at = (instant: number) => ((instant - start) / (BEFORE + AFTER)) * 100;
  const midnights: number[] = [];
  const first = new Date(start);
  first.setHours(24, 0, 0, 0);
  for (let day = first.getTime(); day < now + AFTER; day = new Date(day).setDate(new Date(day).getDate() + 1)) midnights.push(day);
  return (
    <section className="week" aria-label="Runs of this week">
      <Problem error={error} />
      <div className="days" aria-hidden="true">
        <span>{Intl.DateTimeFormat().resolvedOptions().timeZone}</span>
        <div className="names">{midnights.filter((day) => at(day) < 95).map((day) => <span key={day} style={{ left: `${at(day)}%` }}>{new Date(day).toLocaleDateString(undefined, narrow ? { weekday: "narrow" } : { weekday: "short", day: "numeric" })}</span>)}</div>
      </div>
      {schedules.slice(0, 12).map((cron) => {
        const next = upcoming?.schedules.find((one) => one.namespace === cron.namespace && one.name === cron.name);
        const past = tasks.filter((task) => task.namespace === cron.namespace && task.labels?.["kubeopencode.io/crontask"] === cron.name && Date.parse(task.createdAt) > start);
        return (
          <div key={cron.uid} className="lane">
            <Link className="mono cut" to={linkTo(KINDS.crontasks, cron)}>{cron.name}</Link>
            <div className="track" role="img" aria-label={words(cron, past, next?.runs ?? [], next?.more ?? false)}>
              {midnights.map((day) => <i key={day} style={{ left: `${at(day)}%` }} />)}
              <i className="now" style={{ left: `${at(now)}%` }} />
              {thin(past.map((task) => ({ at: Date.parse(task.createdAt), task })), at).map(({ at: instant, task, more }) => {
                const health = healthOf("tasks", task);
                return <span key={task.uid} className={`run ${health.shape}`} style={{ left: `${at(instant)}%` }} title={`${health.word} ${exact(task.createdAt)}${more ? ` and ${more} more` : ""}`}>{health.shape === "done" ? "✓" : health.shape === "failed" ? "✗" : "●"}</span>;
              })}
              {thin((next?.runs ?? []).map((run) => ({ at: Date.parse(run) })), at).map(({ at: instant, more }) => <span key={instant} className="run quiet" style={{ left: `${at(instant)}%` }} title={`${exact(new Date(instant).toISOString())}${more ? ` and ${more} more` : ""}`}>○</span>)}
            </div>
          </div>
        );
      })}
    </section>
  );
}

/** One mark for runs that would lie on each other; a failed one is the one that is shown. */
function thin<T extends { at: number; task?: Task }>(runs: T[], place: (instant: number) => number): (T & { more: number })[] {
  const marks: (T & { more: number })[] = [];
  for (const run of runs.toSorted((a, b) => a.at - b.at)) {
    const last = marks.at(-1);
    if (last && place(run.at) - place(last.at) < APART) {
      const worse = run.task?.phase === "Failed" && last.task?.phase !== "Failed";
      marks[marks.length - 1] = worse ? { ...run, more: last.more + 1 } : { ...last, more: last.more + 1 };
    } else marks.push({ ...run, more: 0 });
  }
  return marks;
}

function words(cron: CronTask, past: Task[], next: string[], more: boolean): string {
  const failed = past.filter((task) => task.phase === "Failed").length;
  const before = `${past.length} runs in the last two days${failed ? `, ${failed} failed` : ""}`;
  if (cron.suspend) return `${before}; suspended`;
  return `${before}; ${next.length}${more ? " or more" : ""} in the next five days${next[0] ? `, first ${exact(next[0])}` : ""}`;
}
