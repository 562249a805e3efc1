// A new Task: what to do, and on what. The manifest it becomes is shown as it is typed.

import { useState, type FormEvent } from "react";
import { useNavigate, useSearchParams } from "react-router";
import { apply, TEMPLATE } from "../begin";
import { Badge, Command, Problem, Skeleton } from "../parts/common";
import { healthOf } from "../health";
import { pathOf, request } from "../plane/api";
import { useItem, useList, useLoaded } from "../plane/store";
import type { Task } from "../plane/types";

const runnerOf = (task: Task) => (task.agentRef ? `agent:${task.namespace}/${task.agentRef.name}` : `template:${task.namespace}/${task.templateRef?.name ?? ""}`);

/** Waits for what there is to choose from, so that a form never changes under a person's hands. */
export function CreateTask() {
  const loaded = [useLoaded("agents"), useLoaded("agenttemplates"), useLoaded("tasks")].every(Boolean);
  return loaded ? <Form /> : <Skeleton />;
}

function Form() {
  const agents = useList("agents");
  const templates = useList("agenttemplates");
  const [parameters] = useSearchParams();
  const [again, of = ""] = (parameters.get("from") ?? "/").split("/");
  const from = useItem("tasks", again ?? "", of);
  const [description, setDescription] = useState(from?.description ?? "");
  const [name, setName] = useState("");
  const [timeout, setTimeoutText] = useState(from?.timeout ?? "");
  const [runner, setRunner] = useState(parameters.get("on") ?? (from ? runnerOf(from) : ""));
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const navigate = useNavigate();
  const options = [...agents.map((agent) => `agent:${agent.namespace}/${agent.name}`), ...templates.map((template) => `template:${template.namespace}/${template.name}`)];
  const chosen = runner || options[0] || "";
  const [kind = "", rest = ""] = chosen.split(":");
  const [namespace = "", runnerName = ""] = rest.split("/");
  const agent = kind === "agent" ? agents.find((one) => one.namespace === namespace && one.name === runnerName) : undefined;
  const body = { ...(name ? { name } : {}), description, ...(kind === "agent" ? { agentRef: { name: runnerName } } : { templateRef: { name: runnerName } }), ...(timeout ? { timeout } : {}), ...(from?.contexts ? { contexts: from.contexts } : {}) };
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      const task = await request<Task>(pathOf("tasks", namespace), { method: "POST", json: body });
      void navigate(`/tasks/${task.namespace}/${task.name}?tab=logs`);
    } catch (refusal) {
      setError(refusal as Error);
      setBusy(false);
    }
  };
  if (options.length === 0)
    return (
      <div className="empty">
        <p>A Task needs an Agent or a template to run on, and there is none that you can see.</p>
        <p>Apply one first:</p>
        <Command text={apply(TEMPLATE)} />
      </div>
    );
  return (
    <form onSubmit={submit} style={{ maxWidth: 720 }}>
      <div className="head"><h1>Create a Task</h1>{from ? <span className="quiet">like {from.name}{from.contexts?.length ? `, with its ${from.contexts.length} contexts` : ""}</span> : null}</div>
      <Problem error={error} />
      <label className="row"><span>What to do</span><textarea className="field" rows={8} required autoFocus value={description} onChange={(event) => setDescription(event.target.value)} placeholder="Update the dependencies, run the tests, and describe what changed." /></label>
      <label className="row"><span>Runs on</span>
        <select className="field" value={chosen} onChange={(event) => setRunner(event.target.value)}>
          {agents.length > 0 ? <optgroup label="Agents">{options.filter((option) => option.startsWith("agent:")).map((option) => <option key={option} value={option}>{option.slice(6)}</option>)}</optgroup> : null}
          {templates.length > 0 ? <optgroup label="Templates, in a Pod of its own">{options.filter((option) => option.startsWith("template:")).map((option) => <option key={option} value={option}>{option.slice(9)}</option>)}</optgroup> : null}
        </select>
        {agent ? <span style={{ marginTop: 6, fontWeight: 400 }}><Badge health={healthOf("agents", agent)} /> <span className="quiet">{[agent.serverStatus.ready ? "" : "The Task waits until it is ready", agent.profile ?? ""].filter(Boolean).join(" · ")}</span></span> : null}
      </label>
      <label className="row"><span>Name <span className="quiet">(made up when empty)</span></span><input className="field mono" value={name} onChange={(event) => setName(event.target.value)} pattern="[a-z0-9]([a-z0-9.\-]*[a-z0-9])?" title="Lower-case letters, digits, - and ." /></label>
      <label className="row"><span>Timeout <span className="quiet">(none when empty)</span></span><input className="field mono" value={timeout} onChange={(event) => setTimeoutText(event.target.value)} placeholder="30m" /></label>
      <p><button className="button first" disabled={busy || !description}>Create</button></p>
      <h2>The same as a manifest, for <span className="mono">kubectl create -f -</span></h2>
      <pre className="pre" tabIndex={0} role="region" aria-label="Manifest">{manifest(namespace, body)}</pre>
    </form>
  );
}

function manifest(namespace: string, body: { name?: string; description: string; agentRef?: { name: string }; templateRef?: { name: string }; timeout?: string }): string {
  const lines = ["apiVersion: kubeopencode.io/v1alpha1", "kind: Task", "metadata:", body.name ? `  name: ${body.name}` : "  generateName: task-", `  namespace: ${namespace}`, "spec:"];
  if (body.agentRef) lines.push("  agentRef:", `    name: ${body.agentRef.name}`);
  if (body.templateRef) lines.push("  templateRef:", `    name: ${body.templateRef.name}`);
  if (body.timeout) lines.push(`  timeout: ${body.timeout}`);
  lines.push("  description: |", ...body.description.split("\n").map((line) => `    ${line}`));
  return lines.join("\n");
}
