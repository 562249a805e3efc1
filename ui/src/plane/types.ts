// The shapes that the server's routes send, by the names that pages use. They are made from the OpenAPI document.

import type { AgentTemplateView, AgentView, Condition, CronTaskView, TaskView } from "./views";

export type { Condition };
export type Task = TaskView;
export type CronTask = CronTaskView;
export type Agent = AgentView;
export type Template = AgentTemplateView;
export type Phase = Task["phase"];

/** What every kind has. */
export type Item = Pick<TaskView, "name" | "namespace" | "uid" | "resourceVersion" | "createdAt" | "conditions" | "labels" | "annotations" | "deletionTimestamp">;

export interface KindMap {
  tasks: Task;
  crontasks: CronTask;
  agents: Agent;
  agenttemplates: Template;
}

export type Plural = keyof KindMap;
