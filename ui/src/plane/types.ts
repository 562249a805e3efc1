// The shapes that the server's routes send. Every kind shares the first part.

export interface Condition {
  type: string;
  status: "True" | "False" | "Unknown";
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
}

export interface Item {
  name: string;
  namespace: string;
  uid: string;
  resourceVersion: string;
  createdAt: string;
  conditions: Condition[];
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  deletionTimestamp?: string;
}

export interface Reference {
  name: string;
}

export interface Session {
  id?: string;
  title?: string;
  summary?: {
    messageCount?: number;
    tokenUsage?: { input?: number; output?: number; reasoning?: number; cache?: number };
    cost?: string;
    filesChanged?: number;
    additions?: number;
    deletions?: number;
  };
}

export type Phase = "Pending" | "Queued" | "Running" | "Completed" | "Failed";

export interface Context {
  name?: string;
  type: string;
  mountPath?: string;
  text?: string;
}

export interface Task extends Item {
  phase: Phase;
  description?: string;
  agentRef?: Reference;
  templateRef?: Reference;
  timeout?: string;
  contexts?: Context[];
  podName?: string;
  startTime?: string;
  completionTime?: string;
  session?: Session;
}

export interface CronTask extends Item {
  schedule: string;
  timeZone?: string;
  concurrencyPolicy?: string;
  suspend: boolean;
  maxRetainedTasks?: number;
  taskTemplate?: { spec?: { description?: string; agentRef?: Reference; templateRef?: Reference } };
  active?: number;
  lastScheduleTime?: string;
  lastSuccessfulTime?: string;
  nextScheduleTime?: string;
  totalExecutions?: number;
}

export interface Agent extends Item {
  profile?: string;
  templateRef?: Reference;
  executorImage?: string;
  workspaceDir?: string;
  serviceAccountName?: string;
  maxConcurrentTasks?: number;
  quota?: { maxTaskStarts: number; windowSeconds: number };
  suspend?: boolean;
  persistence?: { sessions?: object; workspace?: object };
  contexts?: Context[];
  taskStartHistory?: { taskName: string; startTime: string }[];
  serverStatus: {
    deploymentName?: string;
    serviceName?: string;
    url?: string;
    ready?: boolean;
    suspended?: boolean;
    port: number;
    idleSince?: string;
  };
}

export interface Template extends Item {
  executorImage?: string;
  workspaceDir?: string;
  serviceAccountName?: string;
  maxConcurrentTasks?: number;
  quota?: { maxTaskStarts: number; windowSeconds: number };
  contexts?: Context[];
}

export interface KindMap {
  tasks: Task;
  crontasks: CronTask;
  agents: Agent;
  agenttemplates: Template;
}

export type Plural = keyof KindMap;
