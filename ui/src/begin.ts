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

export const apply = (...manifests: string[]) => `kubectl apply -f - <<'END'\n${manifests.join("\n---\n")}\nEND`;
