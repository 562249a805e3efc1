// Made from docs/reference/openapi.json by scripts/types.mjs. Do not edit.

export interface AgentTemplateView {
  agentImage?: string;
  annotations?: Record<string, string>;
  attachImage?: string;
  command?: string[];
  conditions: Condition[];
  config?: unknown;
  contexts?: ({
    configMap?: {
      key?: string;
      name: string;
      optional?: boolean;
    };
    description?: string;
    fileMode?: number;
    git?: {
      depth?: number;
      path?: string;
      recurseSubmodules?: boolean;
      ref?: string;
      repository: string;
      secretRef?: {
        name: string;
      };
    };
    mountPath?: string;
    name?: string;
    optional?: boolean;
    runtime?: Record<string, unknown>;
    text?: string;
    type: "Text" | "ConfigMap" | "Git" | "Runtime" | "URL";
    url?: {
      headers?: Record<string, string>;
      insecureSkipTLSVerify?: boolean;
      secretRef?: {
        name: string;
      };
      source: string;
      timeout?: number;
    };
  })[];
  createdAt: string;
  credentials: {
    env?: string;
    mountPath?: string;
    name?: string;
    secretRef?: Record<string, unknown>;
  }[];
  deletionTimestamp?: string;
  executorImage?: string;
  extraPorts?: ({
    name: string;
    port: number;
    protocol?: "TCP" | "UDP";
  })[];
  labels?: Record<string, string>;
  maxConcurrentTasks?: number;
  name: string;
  namespace: string;
  podSpec?: unknown;
  proxy?: {
    httpProxy?: string;
    httpsProxy?: string;
    noProxy?: string;
  };
  quota?: {
    maxTaskStarts: number;
    windowSeconds: number;
  };
  resourceVersion: string;
  serviceAccountName?: string;
  uid: string;
  workspaceDir?: string;
}

export interface AgentView {
  agentImage?: string;
  annotations?: Record<string, string>;
  attachImage?: string;
  command?: string[];
  conditions: Condition[];
  config?: unknown;
  contexts?: ({
    configMap?: {
      key?: string;
      name: string;
      optional?: boolean;
    };
    description?: string;
    fileMode?: number;
    git?: {
      depth?: number;
      path?: string;
      recurseSubmodules?: boolean;
      ref?: string;
      repository: string;
      secretRef?: {
        name: string;
      };
    };
    mountPath?: string;
    name?: string;
    optional?: boolean;
    runtime?: Record<string, unknown>;
    text?: string;
    type: "Text" | "ConfigMap" | "Git" | "Runtime" | "URL";
    url?: {
      headers?: Record<string, string>;
      insecureSkipTLSVerify?: boolean;
      secretRef?: {
        name: string;
      };
      source: string;
      timeout?: number;
    };
  })[];
  createdAt: string;
  credentials: {
    env?: string;
    mountPath?: string;
    name?: string;
    secretRef?: Record<string, unknown>;
  }[];
  deletionTimestamp?: string;
  executorImage?: string;
  extraPorts?: ({
    name: string;
    port: number;
    protocol?: "TCP" | "UDP";
  })[];
  labels?: Record<string, string>;
  maxConcurrentTasks?: number;
  name: string;
  namespace: string;
  persistence?: {
    sessions?: {
      size?: string;
      storageClassName?: string;
    };
    workspace?: {
      size?: string;
      storageClassName?: string;
    };
  };
  podSpec?: unknown;
  profile?: string;
  proxy?: {
    httpProxy?: string;
    httpsProxy?: string;
    noProxy?: string;
  };
  quota?: {
    maxTaskStarts: number;
    windowSeconds: number;
  };
  resourceVersion: string;
  serverStatus: {
    deploymentName?: string;
    idleSince?: string;
    port: number;
    ready?: boolean;
    serviceName?: string;
    suspended?: boolean;
    url?: string;
  };
  serviceAccountName?: string;
  standby?: {
    idleTimeout: string;
  };
  suspend?: boolean;
  taskStartHistory?: {
    startTime: string;
    taskName: string;
    taskNamespace: string;
    taskUID?: string;
  }[];
  templateRef?: {
    name: string;
  };
  uid: string;
  workspaceDir?: string;
}

export interface Condition {
  lastTransitionTime?: string;
  message?: string;
  reason?: string;
  status: "True" | "False" | "Unknown";
  type: string;
}

export interface CronTaskView {
  active?: number;
  activeRefs?: {
    apiVersion?: string;
    kind?: string;
    name?: string;
    namespace?: string;
    uid?: string;
  }[];
  annotations?: Record<string, string>;
  concurrencyPolicy?: "Allow" | "Forbid" | "Replace";
  conditions: Condition[];
  createdAt: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  lastScheduleTime?: string;
  lastSuccessfulTime?: string;
  maxRetainedTasks?: number;
  name: string;
  namespace: string;
  nextScheduleTime?: string;
  resourceVersion: string;
  schedule: string;
  startingDeadlineSeconds?: number;
  suspend: boolean;
  taskTemplate?: {
    metadata?: {
      annotations?: Record<string, string>;
      labels?: Record<string, string>;
    };
    spec: {
      agentRef?: {
        name: string;
      };
      contexts?: ({
        configMap?: {
          key?: string;
          name: string;
          optional?: boolean;
        };
        description?: string;
        fileMode?: number;
        git?: {
          depth?: number;
          path?: string;
          recurseSubmodules?: boolean;
          ref?: string;
          repository: string;
          secretRef?: {
            name: string;
          };
        };
        mountPath?: string;
        name?: string;
        optional?: boolean;
        runtime?: Record<string, unknown>;
        text?: string;
        type: "Text" | "ConfigMap" | "Git" | "Runtime" | "URL";
        url?: {
          headers?: Record<string, string>;
          insecureSkipTLSVerify?: boolean;
          secretRef?: {
            name: string;
          };
          source: string;
          timeout?: number;
        };
      })[];
      description?: string;
      templateRef?: {
        name: string;
      };
      timeout?: string;
    };
  };
  timeZone?: string;
  totalExecutions?: number;
  uid: string;
}

export interface TaskView {
  agentRef?: {
    name: string;
  };
  annotations?: Record<string, string>;
  completionTime?: string;
  conditions: Condition[];
  contexts?: ({
    configMap?: {
      key?: string;
      name: string;
      optional?: boolean;
    };
    description?: string;
    fileMode?: number;
    git?: {
      depth?: number;
      path?: string;
      recurseSubmodules?: boolean;
      ref?: string;
      repository: string;
      secretRef?: {
        name: string;
      };
    };
    mountPath?: string;
    name?: string;
    optional?: boolean;
    runtime?: Record<string, unknown>;
    text?: string;
    type: "Text" | "ConfigMap" | "Git" | "Runtime" | "URL";
    url?: {
      headers?: Record<string, string>;
      insecureSkipTLSVerify?: boolean;
      secretRef?: {
        name: string;
      };
      source: string;
      timeout?: number;
    };
  })[];
  createdAt: string;
  deletionTimestamp?: string;
  description?: string;
  labels?: Record<string, string>;
  name: string;
  namespace: string;
  phase: "Pending" | "Queued" | "Running" | "Completed" | "Failed";
  podName?: string;
  resourceVersion: string;
  session?: {
    id?: string;
    summary?: {
      additions?: number;
      cost?: string;
      deletions?: number;
      filesChanged?: number;
      messageCount?: number;
      tokenUsage?: {
        cache?: number;
        input?: number;
        output?: number;
        reasoning?: number;
      };
    };
    title?: string;
  };
  startTime?: string;
  templateRef?: {
    name: string;
  };
  timeout?: string;
  uid: string;
}
