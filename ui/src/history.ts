// How it has been going: Tasks counted into slices of time. Pure.

import type { Bar } from "./parts/Chart";
import type { Task } from "./plane/types";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

export const RANGES = {
  hour: { label: "1 h", slice: 2.5 * MINUTE, count: 24 },
  day: { label: "24 h", slice: HOUR, count: 24 },
  week: { label: "7 d", slice: 6 * HOUR, count: 28 },
} as const;

export type Range = keyof typeof RANGES;

interface Slice {
  start: number;
  end: number;
  label: string;
}

export function slices(range: Range, now: number): Slice[] {
  const { slice, count } = RANGES[range];
  const last = Math.ceil(now / slice) * slice;
  return Array.from({ length: count }, (_, index) => {
    const start = last - (count - index) * slice;
    const options: Intl.DateTimeFormatOptions = range === "week" ? { weekday: "short", hour: "2-digit" } : { hour: "2-digit", minute: "2-digit" };
    return { start, end: start + slice, label: new Date(start).toLocaleString(undefined, { ...options, hour12: false }) };
  });
}

/** Those that were created within the range. */
export function within(tasks: Task[], range: Range, now: number): Task[] {
  const first = slices(range, now)[0]?.start ?? now;
  return tasks.filter((task) => Date.parse(task.createdAt) >= first);
}

/** Completed, failed and open, by when they were created. */
export function outcomes(tasks: Task[], range: Range, now: number): Bar[] {
  return count(slices(range, now), tasks, (task) => Date.parse(task.createdAt), 3, (task) => [task.phase === "Completed" ? 0 : task.phase === "Failed" ? 1 : 2, 1]);
}

/** The most Tasks that waited at the same time within each slice. */
export function queue(tasks: Task[], range: Range, now: number): Bar[] {
  const all = slices(range, now);
  const first = all[0]?.start ?? now;
  const steps: [number, number][] = [];
  for (const task of tasks) {
    const from = Date.parse(task.createdAt);
    const ended = task.phase === "Completed" || task.phase === "Failed";
    const until = task.startTime ? Date.parse(task.startTime) : ended ? Date.parse(task.completionTime ?? task.createdAt) : Infinity;
    // A Task that started at once did not wait; times are whole seconds.
    if (until > from && until > first) steps.push([from, 1], [until, -1]);
  }
  steps.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let waiting = 0;
  let next = 0;
  return all.map(({ end, label }) => {
    let most = waiting;
    for (; next < steps.length && steps[next]![0] < end; next++) {
      waiting += steps[next]![1];
      most = Math.max(most, waiting);
    }
    return { label, values: [most] };
  });
}

/** A number of each Task, added up by when it ended. */
export function spent(tasks: Task[], range: Range, now: number, numbers: (task: Task) => number[]): Bar[] {
  const all = slices(range, now);
  const width = numbers.length === 0 ? 1 : Math.max(1, ...tasks.slice(0, 1).map((task) => numbers(task).length));
  const bars = all.map(({ label }) => ({ label, values: new Array<number>(width).fill(0) }));
  for (const task of tasks) {
    const index = place(all, Date.parse(task.completionTime ?? task.createdAt));
    numbers(task).forEach((value, which) => {
      const bar = bars[index];
      if (bar) bar.values[which] = (bar.values[which] ?? 0) + value;
    });
  }
  return bars;
}

function count(all: Slice[], tasks: Task[], at: (task: Task) => number, series: number, value: (task: Task) => [number, number]): Bar[] {
  const bars = all.map(({ label }) => ({ label, values: new Array<number>(series).fill(0) }));
  for (const task of tasks) {
    const bar = bars[place(all, at(task))];
    const [which, amount] = value(task);
    if (bar) bar.values[which] = (bar.values[which] ?? 0) + amount;
  }
  return bars;
}

function place(all: Slice[], instant: number): number {
  const first = all[0];
  return first ? Math.floor((instant - first.start) / (first.end - first.start)) : -1;
}
