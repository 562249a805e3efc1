// What an object is made of, each part with its health: Agent → Deployment → Pod → container, and the Tasks on it.

import type { ReactNode } from "react";
import { Link } from "react-router";
import { healthOf, type Health } from "../health";
import { KINDS, linkTo } from "../kinds";
import { useParts, type Container, type Part } from "../plane/parts";
import { useList } from "../plane/store";
import type { Agent, Runtime, Task } from "../plane/types";
import { Badge } from "./common";

export function AgentTree({ agent }: { agent: Agent }) {
  const parts = useParts(agent.namespace, `kubeopencode.io/agent=${agent.name}`);
  const tasks = useList("tasks").filter((task) => task.namespace === agent.namespace && task.agentRef?.name === agent.name && task.phase !== "Completed" && task.phase !== "Failed");
  const deployments = parts.filter((part) => part.kind === "deployments");
  const pods = parts.filter((part) => part.kind === "pods" && part.owner?.kind !== "Task");
  return (
    <ul className="tree">
      <Node health={healthOf("agents", agent)} kind="Agent" name={agent.name}>
        {deployments.map((deployment) => (
          <Node key={deployment.uid} health={deploymentHealth(deployment)} kind="Deployment" name={deployment.name}>
            {pods.map((pod) => <PodNode key={pod.uid} pod={pod} />)}
          </Node>
        ))}
        {deployments.length === 0 ? <li><div className="node quiet">no Deployment yet</div></li> : null}
        {parts.filter((part) => part.kind === "services").map((service) => <Node key={service.uid} kind="Service" name={service.name} note={`${service.clusterIP ?? ""}:${service.ports?.join(", ") ?? ""}`} />)}
        {tasks.map((task) => <TaskNode key={task.uid} task={task} pods={parts.filter((part) => part.owner?.uid === task.uid)} />)}
        {tasks.length === 0 ? <li><div className="node quiet">no Task runs or waits on it</div></li> : null}
      </Node>
    </ul>
  );
}

/** AgentRuntime → Deployment → Pod → container, and the Services in front of it. */
export function RuntimeTree({ runtime }: { runtime: Runtime }) {
  const parts = useParts(runtime.namespace, `app.kubernetes.io/instance=${runtime.name},app.kubernetes.io/name=omnia-agent`);
  const deployments = parts.filter((part) => part.kind === "deployments").sort((a, b) => a.name.localeCompare(b.name));
  // A Pod belongs to a ReplicaSet, whose name is the Deployment's and a digest.
  const under = (deployment: Part) => parts.filter((part) => part.kind === "pods" && part.owner?.name.replace(/-[^-]+$/, "") === deployment.name);
  return (
    <ul className="tree">
      <Node health={healthOf("agentruntimes", runtime)} kind="AgentRuntime" name={runtime.name}>
        {deployments.map((deployment) => (
          <Node key={deployment.uid} health={deploymentHealth(deployment)} kind="Deployment" name={deployment.name}>
            {under(deployment).map((pod) => <PodNode key={pod.uid} pod={pod} />)}
          </Node>
        ))}
        {deployments.length === 0 ? <li><div className="node quiet">no Deployment yet</div></li> : null}
        {parts.filter((part) => part.kind === "services").map((service) => <Node key={service.uid} kind="Service" name={service.name} note={`${service.clusterIP ?? ""}:${service.ports?.join(", ") ?? ""}`} />)}
      </Node>
    </ul>
  );
}

export function TaskTree({ task }: { task: Task }) {
  const parts = useParts(task.namespace, `kubeopencode.io/task=${task.name}`, "pods");
  return <ul className="tree"><TaskNode task={task} pods={parts} />{parts.length === 0 && task.podName ? <li><div className="node quiet">Pod <span className="mono">{task.podName}</span> is gone; its log is kept</div></li> : null}</ul>;
}

function TaskNode({ task, pods }: { task: Task; pods: Part[] }) {
  return <Node health={healthOf("tasks", task)} kind="Task" name={<Link className="mono" to={linkTo(KINDS.tasks, task)}>{task.name}</Link>}>{pods.map((pod) => <PodNode key={pod.uid} pod={pod} />)}</Node>;
}

function PodNode({ pod }: { pod: Part }) {
  const containers = (pod.containers ?? []).filter((container) => container.state !== "terminated" || container.exitCode !== 0 || (pod.containers ?? []).length === 1);
  return (
    <Node health={podHealth(pod)} kind="Pod" name={pod.name}>
      {containers.map((container) => <Node key={container.name} health={containerHealth(container)} kind="container" name={container.name} note={container.restartCount ? `restarted ${container.restartCount} times` : undefined} />)}
    </Node>
  );
}

function Node({ health, kind, name, note, children }: { health?: Health; kind: string; name: ReactNode; note?: string; children?: ReactNode }) {
  return (
    <li>
      <div className="node">{health ? <Badge health={health} /> : null}<span className="quiet">{kind}</span><span className="mono cut">{name}</span>{note ? <span className="quiet">{note}</span> : null}</div>
      {health?.why ? <div className="quiet" style={{ paddingLeft: 20 }}>{health.why}</div> : null}
      {children ? <ul className="tree">{children}</ul> : null}
    </li>
  );
}

function deploymentHealth(part: Part): Health {
  const wanted = part.replicas ?? 1;
  const ready = part.readyReplicas ?? 0;
  if (wanted === 0) return { shape: "suspended", word: "Scaled to 0" };
  return ready >= wanted ? { shape: "running", word: `${ready} of ${wanted}` } : { shape: "degraded", word: `${ready} of ${wanted}` };
}

function podHealth(pod: Part): Health {
  if (pod.deletionTimestamp) return { shape: "waiting", word: "Ending" };
  switch (pod.phase) {
    case "Running":
      return { shape: "running", word: "Running" };
    case "Succeeded":
      return { shape: "done", word: "Succeeded" };
    case "Failed":
      return { shape: "failed", word: "Failed", why: pod.message };
    default: {
      const unscheduled = pod.conditions.find((one) => one.type === "PodScheduled" && one.status === "False");
      return { shape: "waiting", word: pod.phase ?? "Pending", why: unscheduled?.message };
    }
  }
}

function containerHealth(container: Container): Health {
  const why = [container.reason, container.message].filter(Boolean).join(": ") || undefined;
  switch (container.state) {
    case "running":
      return { shape: container.ready ? "running" : "waiting", word: container.ready ? "Ready" : "Not ready" };
    case "terminated":
      return container.exitCode === 0 ? { shape: "done", word: "Ended" } : { shape: "failed", word: `Exit ${container.exitCode ?? "?"}`, why: container.message };
    default:
      return { shape: "waiting", word: "Waiting", why };
  }
}
