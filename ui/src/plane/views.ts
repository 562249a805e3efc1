// Made from docs/reference/openapi.json by scripts/types.mjs. Do not edit.

export interface AgentPolicyView {
  annotations?: Record<string, string>;
  conditions: Condition[];
  createdAt: string;
  deletionTimestamp?: string;
  generation?: number;
  labels?: Record<string, string>;
  matchedAgents?: number;
  mode?: "enforce" | "permissive";
  name: string;
  namespace: string;
  onFailure?: "deny" | "allow";
  phase?: "Active" | "Error";
  resourceVersion: string;
  selector?: {
    agents?: string[];
  };
  toolAccess?: {
    mode: "allowlist" | "denylist";
    rules: {
      registry: string;
      tools: string[];
    }[];
  };
  toolBlocklist?: string[];
  uid: string;
}

export interface AgentRuntimeView {
  activeVersion?: string;
  agentName?: string;
  agentPolicyRef?: {
    name: string;
  };
  annotations?: Record<string, string>;
  canary?: {
    canary?: {
      errorRate?: number;
      errors?: number;
      inFlight?: number;
      latencyP50Ms?: number;
      latencyP95Ms?: number;
      requests?: number;
      share?: number;
    };
    configMap?: string;
    moved?: boolean;
    since?: string;
    stable?: {
      errorRate?: number;
      errors?: number;
      inFlight?: number;
      latencyP50Ms?: number;
      latencyP95Ms?: number;
      requests?: number;
      share?: number;
    };
    stage?: "Preparing" | "Routing" | "Returning" | "Draining";
    version?: string;
    weight?: number;
    weightSince?: string;
    window?: string;
  };
  conditions: Condition[];
  createdAt: string;
  deletionTimestamp?: string;
  facade: {
    handler?: "echo" | "demo" | "runtime";
    image?: string;
    port?: number;
    type?: "websocket" | "grpc";
  };
  framework?: {
    image?: string;
    type: "promptkit" | "langchain" | "crewai" | "autogen" | "custom";
    version?: string;
  };
  generation?: number;
  labels?: Record<string, string>;
  name: string;
  namespace: string;
  phase?: "Pending" | "Running" | "Failed";
  promptPackRef: {
    name: string;
    track?: "stable";
    version?: string;
  };
  provider?: {
    additionalConfig?: Record<string, string>;
    baseURL?: string;
    config?: unknown;
    model?: string;
    pricing?: {
      cachedCostPer1K?: string;
      inputCostPer1K?: string;
      outputCostPer1K?: string;
    };
    secretRef?: {
      key?: string;
      name: string;
    };
    type?: "auto" | "claude" | "openai" | "gemini" | "ollama" | "mock";
  };
  providerRef?: {
    name: string;
    namespace?: string;
  };
  replicas?: {
    available?: number;
    desired?: number;
    ready?: number;
  };
  resourceVersion: string;
  serviceEndpoint?: string;
  session?: {
    storeRef?: {
      name: string;
    };
    ttl?: string;
    type?: "memory" | "redis" | "postgres";
  };
  toolRegistryRef?: {
    name: string;
    namespace?: string;
  };
  uid: string;
}

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
  generation?: number;
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
  generation?: number;
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
  generation?: number;
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

export interface PackDeploymentView {
  annotations?: Record<string, string>;
  conditions: Condition[];
  createdAt: string;
  deletionTimestamp?: string;
  environment?: string;
  generation?: number;
  labels?: Record<string, string>;
  lastPlan?: {
    at: string;
    changes: ({
      action: "CREATE" | "UPDATE" | "DELETE" | "NO_CHANGE" | "DRIFT";
      detail?: string;
      fields?: {
        after?: unknown;
        before?: unknown;
        manager?: string;
        path: string;
      }[];
      name: string;
      type: string;
    })[];
    operation: string;
    summary: string;
    version: string;
    warnings?: string[];
  };
  lock?: {
    operation: string;
    owner: string;
    since: string;
  };
  name: string;
  namespace: string;
  pack: string;
  problem?: string;
  resourceVersion: string;
  resources: {
    generation?: number;
    name: string;
    status: string;
    type: string;
    uid?: string;
  }[];
  serial: number;
  uid: string;
  version: string;
}

export interface PromptPackView {
  activeVersion?: string;
  agents?: number;
  annotations?: Record<string, string>;
  canary?: {
    agents?: number;
    agentsReady?: number;
    canary?: {
      errorRate?: number;
      errors?: number;
      inFlight?: number;
      latencyP50Ms?: number;
      latencyP95Ms?: number;
      requests?: number;
      share?: number;
    };
    configMap?: string;
    declaredWeight?: number;
    failures?: number;
    lastProgress?: string;
    stable?: {
      errorRate?: number;
      errors?: number;
      inFlight?: number;
      latencyP50Ms?: number;
      latencyP95Ms?: number;
      requests?: number;
      share?: number;
    };
    stage?: "Preparing" | "Running" | "Promoting";
    step?: number;
    stepStarted?: string;
    verdict?: "Passed" | "Failed" | "Inconclusive";
  };
  canaryVersion?: string;
  canaryWeight?: number;
  conditions: Condition[];
  createdAt: string;
  deletionTimestamp?: string;
  description?: string;
  generation?: number;
  labels?: Record<string, string>;
  lastUpdated?: string;
  name: string;
  namespace: string;
  phase?: "Pending" | "Active" | "Canary" | "Failed";
  providerRef?: {
    name: string;
    namespace?: string;
  };
  rejected?: {
    configMap: string;
    message: string;
    reason: string;
    time: string;
    version: string;
  };
  resourceVersion: string;
  rollout?: {
    canary?: {
      abort?: string;
      analysis?: {
        consecutiveFailures?: number;
        maxErrorRate?: number;
        maxLatency?: string;
        minRequests?: number;
      };
      interval?: string;
      progressDeadline?: string;
      promote?: string;
      sessionCookie?: string;
      sessionHeader?: string;
      stepWeight?: number;
      weight?: number;
    };
    type?: "immediate" | "canary";
  };
  source: {
    configMapRef?: {
      name: string;
    };
    type: "configmap";
  };
  uid: string;
  version: string;
  versions?: {
    configMap: string;
    entry?: string;
    prompts?: string[];
    version: string;
  }[];
}

export interface ProviderView {
  annotations?: Record<string, string>;
  baseURL?: string;
  conditions: Condition[];
  createdAt: string;
  defaults?: {
    maxTokens?: number;
    temperature?: string;
    topP?: string;
  };
  deletionTimestamp?: string;
  generation?: number;
  labels?: Record<string, string>;
  model?: string;
  name: string;
  namespace: string;
  phase?: "Ready" | "Error";
  pricing?: {
    cachedCostPer1K?: string;
    inputCostPer1K?: string;
    outputCostPer1K?: string;
  };
  resourceVersion: string;
  secretRef?: {
    key?: string;
    name: string;
  };
  type: "auto" | "claude" | "openai" | "gemini" | "ollama" | "mock";
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
  generation?: number;
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

export interface ToolRegistryView {
  annotations?: Record<string, string>;
  conditions: Condition[];
  createdAt: string;
  deletionTimestamp?: string;
  discoveredTools?: ({
    description?: string;
    endpoint?: string;
    error?: string;
    handlerName?: string;
    inputSchema?: Record<string, unknown>;
    lastChecked?: string;
    name: string;
    operation?: {
      body?: {
        argument: string;
        contentType: string;
      };
      method: string;
      parameters?: ({
        argument: string;
        in: "path" | "query" | "header" | "cookie";
        name?: string;
        style?: "plain" | "joined" | "deep";
      })[];
      path: string;
    };
    outputSchema?: Record<string, unknown>;
    reason?: string;
    remoteName?: string;
    schemaRef?: {
      configMap: string;
      digest: string;
      key: string;
    };
    status: "Available" | "Unavailable" | "Unknown";
    type?: "http" | "grpc" | "openapi" | "mcp";
  })[];
  discoveredToolsCount?: number;
  generation?: number;
  handlers?: ({
    grpcConfig?: {
      endpoint?: string;
      tls?: boolean;
      tlsCAPath?: string;
      tlsCertPath?: string;
      tlsInsecureSkipVerify?: boolean;
      tlsKeyPath?: string;
    };
    httpConfig?: {
      authSecretRef?: {
        key: string;
        name: string;
      };
      authType?: "none" | "bearer" | "basic";
      contentType?: string;
      endpoint?: string;
      headers?: Record<string, string>;
      method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
    };
    mcpConfig?: {
      args?: string[];
      authSecretRef?: {
        key: string;
        name: string;
      };
      authType?: "none" | "bearer" | "basic";
      command?: string;
      endpoint?: string;
      env?: Record<string, string>;
      headers?: Record<string, string>;
      image?: string;
      transport: "streamable-http" | "sse" | "stdio";
      workDir?: string;
    };
    name: string;
    openAPIConfig?: {
      authSecretRef?: {
        key: string;
        name: string;
      };
      authType?: "none" | "bearer" | "basic";
      baseURL?: string;
      headers?: Record<string, string>;
      operationFilter?: string[];
      specURL?: string;
    };
    retries?: number;
    selector?: {
      matchLabels: Record<string, string>;
      namespace?: string;
      port?: string;
    };
    timeout?: string;
    tool?: {
      description: string;
      inputSchema: Record<string, unknown>;
      name: string;
      outputSchema?: Record<string, unknown>;
    };
    type: "http" | "grpc" | "openapi" | "mcp";
  })[];
  labels?: Record<string, string>;
  lastDiscoveryTime?: string;
  name: string;
  namespace: string;
  phase?: "Pending" | "Ready" | "Degraded" | "Failed";
  resourceVersion: string;
  tools?: {
    description?: string;
    inputSchema?: Record<string, unknown>;
    name: string;
  }[];
  uid: string;
}
