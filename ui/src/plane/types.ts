// The shapes that the server's routes send, by the names that pages use. They are made from the OpenAPI document.

import type { AgentPolicyView, AgentRuntimeView, AgentTemplateView, AgentView, Condition, CronTaskView, PackDeploymentView, PromptPackView, ProviderView, TaskView, ToolRegistryView } from "./views";

export type { Condition };
export type Task = TaskView;
export type CronTask = CronTaskView;
export type Agent = AgentView;
export type Template = AgentTemplateView;
export type Pack = PromptPackView;
export type Runtime = AgentRuntimeView;
export type Registry = ToolRegistryView;
export type Tool = NonNullable<Registry["discoveredTools"]>[number];
export type Policy = AgentPolicyView;
export type Provider = ProviderView;
export type Deployment = PackDeploymentView;
export type Phase = Task["phase"];

/** What every kind has. */
export type Item = Pick<TaskView, "name" | "namespace" | "uid" | "resourceVersion" | "generation" | "createdAt" | "conditions" | "labels" | "annotations" | "deletionTimestamp">;

export interface KindMap {
  tasks: Task;
  crontasks: CronTask;
  agents: Agent;
  agenttemplates: Template;
  promptpacks: Pack;
  agentruntimes: Runtime;
  toolregistries: Registry;
  agentpolicies: Policy;
  providers: Provider;
  packdeployments: Deployment;
}

export type Plural = keyof KindMap;
