// A new Task: what to do, and on what. The manifest it becomes is shown as it is typed.

import { useState, type FormEvent } from "react";
import { useNavigate, useSearchParams } from "react-router";
import { Problem } from "../parts/common";
import { pathOf, request } from "../plane/api";
import { useList } from "../plane/store";
import type { Task } from "../plane/types";

export function CreateTask() {
  const agents = useList("agents");
  const templates = useList("agenttemplates");
  const [parameters] = useSearchParams();
  const [description, setDescription] = useState("");
  const [name, setName] = useState("");
  const [timeout, setTimeoutText] = useState("");
  const [runner, setRunner] = useState(parameters.get("on") ?? "");
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const navigate = useNavigate();
  const options = [...agents.map((agent) => `agent:${agent.namespace}/${agent.name}`), ...templates.map((template) => `template:${template.namespace}/${template.name}`)];
  const chosen = runner || options[0] || "";
  const [kind = "", rest = ""] = chosen.split(":");
  const [namespace = "", runnerName = ""] = rest.split("/");
  const body = { ...(name ? { name } : {}), description, ...(kind === "agent" ? { agentRef: { name: runnerName } } : { templateRef: { name: runnerName } }), ...(timeout ? { timeout } : {}) };
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
        <p className="quiet">Apply one first: <span className="mono">kubectl apply -f template.yaml</span></p>
      </div>
    );
  return (
    <form onSubmit={submit} style={{ maxWidth: 720 }}>
      <div className="head"><h1>Create a Task</h1></div>
      <Problem error={error} />
      <label className="row"><span>What to do</span><textarea className="field" rows={8} required autoFocus value={description} onChange={(event) => setDescription(event.target.value)} placeholder="Update the dependencies, run the tests, and describe what changed." /></label>
      <label className="row"><span>Runs on</span>
        <select className="field" value={chosen} onChange={(event) => setRunner(event.target.value)}>
          {options.map((option) => <option key={option} value={option}>{option.replace(":", " ")}</option>)}
        </select>
      </label>
      <label className="row"><span>Name <span className="quiet">(made up when empty)</span></span><input className="field mono" value={name} onChange={(event) => setName(event.target.value)} pattern="[a-z0-9]([a-z0-9.\-]*[a-z0-9])?" title="Lower-case letters, digits, - and ." /></label>
      <label className="row"><span>Timeout <span className="quiet">(none when empty)</span></span><input className="field mono" value={timeout} onChange={(event) => setTimeoutText(event.target.value)} placeholder="30m" /></label>
      <h2>As a manifest</h2>
      <pre className="pre">{manifest(namespace, body)}</pre>
      <p><button className="button first" disabled={busy || !description}>Create</button></p>
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
