// Manifests to begin with, each as a command that works as it stands. A test applies every one of them.

export const TEMPLATE = `apiVersion: kubeopencode.io/v1alpha1
kind: AgentTemplate
metadata:
  name: shell
spec:
  workspaceDir: /workspace
  serviceAccountName: default
  command: ["sh", "/workspace/task.md"]`;

export const TASK = `apiVersion: kubeopencode.io/v1alpha1
kind: Task
metadata:
  name: hello
spec:
  templateRef:
    name: shell
  description: echo hello from a Pod of its own`;

export const AGENT = `apiVersion: kubeopencode.io/v1alpha1
kind: Agent
metadata:
  name: helper
spec:
  profile: Answers questions about what is in its workspace
  workspaceDir: /workspace
  serviceAccountName: default`;

export const CRON_TASK = `apiVersion: kubeopencode.io/v1alpha1
kind: CronTask
metadata:
  name: every-morning
spec:
  schedule: "0 7 * * 1-5"
  timeZone: Europe/Vienna
  taskTemplate:
    spec:
      templateRef:
        name: shell
      description: date`;

export const PACK = `apiVersion: v1
kind: ConfigMap
metadata:
  name: greeter-packdata
data:
  pack.json: |
    {
      "id": "greeter",
      "name": "Greeter",
      "version": "1.0.0",
      "template_engine": { "version": "v1", "syntax": "{{variable}}" },
      "prompts": {
        "default": { "id": "default", "name": "Greeter", "version": "1.0.0", "system_template": "You greet people." }
      }
    }
---
apiVersion: omnia.altairalabs.ai/v1alpha1
kind: PromptPack
metadata:
  name: greeter
spec:
  version: 1.0.0
  source:
    type: configmap
    configMapRef:
      name: greeter-packdata`;

export const RUNTIME = `apiVersion: omnia.altairalabs.ai/v1alpha1
kind: AgentRuntime
metadata:
  name: greeter
spec:
  promptPackRef:
    name: greeter
  facade:
    type: websocket
  provider:
    type: mock`;

export const REGISTRY = `apiVersion: omnia.altairalabs.ai/v1alpha1
kind: ToolRegistry
metadata:
  name: greeter-tools
spec:
  handlers:
    - name: repeat
      type: http
      tool:
        name: repeat
        description: Says the message again
        inputSchema:
          type: object
          properties:
            message:
              type: string
          required: [message]
      httpConfig:
        endpoint: http://greeter.default.svc.cluster.local:8080/v1/chat`;

export const POLICY = `apiVersion: omnia.altairalabs.ai/v1alpha1
kind: AgentPolicy
metadata:
  name: careful
spec:
  toolBlocklist: [delete_everything]`;

export const PROVIDER = `apiVersion: omnia.altairalabs.ai/v1alpha1
kind: Provider
metadata:
  name: local
spec:
  type: ollama
  model: llama3.2
  baseURL: http://localhost:11434/v1`;

export const PROVIDER_MOCK = `apiVersion: omnia.altairalabs.ai/v1alpha1
kind: Provider
metadata:
  name: rehearsal
spec:
  type: mock`;

/** A pack and a configuration in two files, and the command that deploys them. */
export const deploy = `cat > pack.json <<'END'
{
  "id": "porter",
  "name": "Porter",
  "version": "1.0.0",
  "template_engine": { "version": "v1", "syntax": "{{variable}}" },
  "prompts": {
    "default": { "id": "default", "name": "Porter", "version": "1.0.0", "system_template": "You carry bags." }
  }
}
END
cat > deploy.yaml <<'END'
workspace: default
providers:
  default: rehearsal
END
orrery deploy apply --pack pack.json --config deploy.yaml`;

export const apply = (...manifests: string[]) => `kubectl apply -f - <<'END'\n${manifests.join("\n---\n")}\nEND`;
