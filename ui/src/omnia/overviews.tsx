// What the Overview tab shows of Omnia's kinds.

import { useEffect, useState } from "react";
import { Link } from "react-router";
import { healthOf, type Health } from "../health";
import { linkTo } from "../kind";
import { Badge, Problem } from "../parts/common";
import { RuntimeTree } from "../parts/Tree";
import { pathOf, request } from "../plane/api";
import { useList } from "../plane/store";
import type { Item, Pack, Plural, Policy, Provider, Registry, Runtime, Tool } from "../plane/types";
import { Canary } from "./Canary";
import { OMNIA, rules } from "./kinds";

export function OmniaOverview({ plural, item }: { plural: Plural; item: Item }) {
  switch (plural) {
    case "promptpacks":
      return <PackOverview pack={item as Pack} />;
    case "agentruntimes":
      return <RuntimeOverview runtime={item as Runtime} />;
    case "toolregistries":
      return <RegistryOverview registry={item as Registry} />;
    case "agentpolicies":
      return <PolicyOverview policy={item as Policy} />;
    default:
      return <ProviderOverview provider={item as Provider} />;
  }
}

function useRuntimes(item: Item, uses: (runtime: Runtime) => boolean): Runtime[] {
  return useList("agentruntimes").filter((runtime) => runtime.namespace === item.namespace && uses(runtime));
}

function Players({ title, runtimes, none }: { title: string; runtimes: Runtime[]; none: string }) {
  return (
    <>
      <h2>{title}</h2>
      {runtimes.length === 0 ? <p className="quiet">{none}</p> : null}
      <ul className="tree">{runtimes.map((runtime) => <li key={runtime.uid}><div className="node"><Badge health={healthOf("agentruntimes", runtime)} /><Link className="mono" to={linkTo(OMNIA.agentruntimes, runtime)}>{runtime.name}</Link><span className="quiet mono">{runtime.activeVersion}</span></div></li>)}</ul>
    </>
  );
}

function PackOverview({ pack }: { pack: Pack }) {
  const active = pack.versions?.[0];
  return (
    <>
      {pack.description ? <p>{pack.description}</p> : null}
      <Canary pack={pack} />
      {active ? (
        <>
          <h2>Prompts of version {active.version}</h2>
          <p className="mono">{(active.prompts ?? []).map((prompt, index) => <span key={prompt}>{index > 0 ? ", " : ""}{prompt}{prompt === active.entry ? " (entry)" : ""}</span>)}</p>
        </>
      ) : null}
      <Players title="Runtimes that play it" runtimes={useRuntimes(pack, (runtime) => runtime.promptPackRef.name === pack.name)} none="No runtime plays it yet." />
    </>
  );
}

function RuntimeOverview({ runtime }: { runtime: Runtime }) {
  return (
    <>
      <h2>What it is made of</h2>
      <RuntimeTree runtime={runtime} />
    </>
  );
}

function ProviderOverview({ provider }: { provider: Provider }) {
  const packs = useList("promptpacks").filter((pack) => pack.namespace === provider.namespace && pack.providerRef?.name === provider.name).map((pack) => pack.name);
  const uses = (runtime: Runtime) => runtime.providerRef?.name === provider.name || (!runtime.providerRef && !runtime.provider && packs.includes(runtime.promptPackRef.name));
  return <Players title="Runtimes that ask it" runtimes={useRuntimes(provider, uses)} none="No runtime names it, and no pack that a runtime plays." />;
}

function RegistryOverview({ registry }: { registry: Registry }) {
  const tools = registry.discoveredTools ?? [];
  return (
    <>
      <h2>Tools</h2>
      {tools.length === 0 ? <p className="quiet">None was found; the conditions below say why.</p> : null}
      <ul className="tools-list">{tools.map((tool) => <ToolCard key={`${tool.handlerName}/${tool.name}`} registry={registry} tool={tool} />)}</ul>
      <Players title="Runtimes that may call them" runtimes={useRuntimes(registry, (runtime) => runtime.toolRegistryRef?.name === registry.name)} none="No runtime names this registry." />
    </>
  );
}

function toolHealth(tool: Tool): Health {
  switch (tool.status) {
    case "Available":
      return { shape: "done", word: "Available" };
    case "Unavailable":
      return { shape: "failed", word: tool.reason ?? "Unavailable", why: tool.error };
    default:
      return { shape: "waiting", word: "Unknown" };
  }
}

interface Schema {
  type?: string | string[];
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
}

function ToolCard({ registry, tool }: { registry: Registry; tool: Tool }) {
  const health = toolHealth(tool);
  return (
    <li>
      <div className="node"><b className="mono">{tool.name}</b><Badge health={health} /><span className="quiet">{tool.handlerName ? `by ${tool.handlerName}` : ""}</span></div>
      {tool.description ? <p>{tool.description}</p> : null}
      {health.why ? <p className="quiet">{health.why}</p> : null}
      {tool.endpoint ? <p className="quiet mono long">{tool.endpoint}</p> : null}
      {tool.schemaRef ? <KeptSchema registry={registry} tool={tool} /> : <SchemaView name={tool.name} schema={tool.inputSchema as Schema | undefined} />}
    </li>
  );
}

/** A schema that is too much for the registry's status is asked for when somebody wants to see it. */
function KeptSchema({ registry, tool }: { registry: Registry; tool: Tool }) {
  const [details, setDetails] = useState<{ description?: string; inputSchema?: Schema }>();
  const [error, setError] = useState<Error>();
  const load = () => request<{ description?: string; inputSchema?: Schema }>(`${pathOf("toolregistries", registry.namespace, registry.name)}/details?tool=${encodeURIComponent(tool.name)}`).then(setDetails, setError);
  if (details) return <>{details.description && !tool.description ? <p>{details.description}</p> : null}<SchemaView name={tool.name} schema={details.inputSchema} /></>;
  return <><Problem error={error} /><button type="button" className="link" onClick={() => void load()}>What {tool.name} takes</button></>;
}

function SchemaView({ name, schema }: { name: string; schema?: Schema }) {
  const fields = Object.entries(schema?.properties ?? {});
  if (!schema) return <p className="quiet">It takes anything: no schema is known.</p>;
  return (
    <>
      {fields.length > 0 ? (
        <table className="plain stacks">
          <tbody>{fields.map(([field, { type, description }]) => <tr key={field}><td className="mono">{field}</td><td className="quiet">{[type].flat().join(" or ") || "anything"}{schema.required?.includes(field) ? ", required" : ""}</td><td className="long">{description}</td></tr>)}</tbody>
        </table>
      ) : null}
      <details><summary>Schema of {name}</summary><pre className="pre" tabIndex={0} role="region" aria-label={`Schema of ${name}`}>{JSON.stringify(schema, null, 2)}</pre></details>
    </>
  );
}

interface Effect {
  refuses: boolean;
  agents: { agent: string; registry?: string; tools: { name: string; allowed: boolean }[] }[];
}

function PolicyOverview({ policy }: { policy: Policy }) {
  const [effect, setEffect] = useState<Effect>();
  const [error, setError] = useState<Error>();
  const here = (item: Item) => item.namespace === policy.namespace;
  // What it means is other when it, a runtime or what a registry found is.
  const version = [policy, ...useList("agentruntimes").filter(here), ...useList("toolregistries").filter(here)].map((item) => item.resourceVersion).join();
  useEffect(() => {
    request<Effect>(`${pathOf("agentpolicies", policy.namespace, policy.name)}/effect`).then((answer) => {
      setEffect(answer);
      setError(undefined);
    }, setError);
  }, [policy.namespace, policy.name, version]);
  return (
    <>
      <h2>Rules</h2>
      <ul>{rules(policy).map((rule) => <li key={rule}>{rule}</li>)}</ul>
      <h2>What that means</h2>
      <Problem error={error} />
      {effect?.agents.length === 0 ? <p className="quiet">It is for no runtime that exists.</p> : null}
      {effect?.agents.length ? (
        <table className="plain stacks">
          <thead><tr><th>Runtime</th><th>Tools of</th><th>{effect.refuses ? "Denied" : "Reported"}</th><th>Allowed</th></tr></thead>
          <tbody>
            {effect.agents.map(({ agent, registry, tools }) => (
              <tr key={agent}>
                <td><Link className="mono" to={`/runtimes/${policy.namespace}/${agent}`}>{agent}</Link></td>
                <td>{registry ? <Link className="mono" to={`/tools/${policy.namespace}/${registry}`}>{registry}</Link> : <span className="quiet">no registry</span>}</td>
                <td className="long"><Names tools={tools.filter((tool) => !tool.allowed)} denied /></td>
                <td className="long"><Names tools={tools.filter((tool) => tool.allowed)} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : null}
    </>
  );
}

function Names({ tools, denied = false }: { tools: { name: string }[]; denied?: boolean }) {
  if (tools.length === 0) return <span className="quiet">{denied ? "nothing" : "no tool"}</span>;
  return <span className={`mono ${denied ? "failed" : ""}`}>{denied ? "✗ " : ""}{tools.map((tool) => tool.name).join(", ")}</span>;
}
