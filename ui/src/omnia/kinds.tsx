// The rows of Omnia's kinds.

import type { ReactNode } from "react";
import { Link } from "react-router";
import { apply, PACK, POLICY, PROVIDER, REGISTRY, RUNTIME } from "../begin";
import { age } from "../format";
import { act, ageColumn, namespaceColumn, type Kind } from "../kind";
import { store } from "../plane/store";
import type { Pack, Policy, Provider, Registry, Runtime } from "../plane/types";

const mono = (text: ReactNode) => <span className="mono cut">{text ?? "–"}</span>;
const to = (route: string, namespace: string, name?: string) => (name ? <Link className="mono" to={`/${route}/${namespace}/${name}`}>{name}</Link> : "none");

/** The version that agents have, and the one on its way. */
export const versions = (pack: Pack) => pack.canaryVersion ? `${pack.activeVersion ?? "–"}, ${pack.canaryVersion} at ${pack.canaryWeight ?? 0} %` : (pack.activeVersion === pack.version || !pack.activeVersion ? (pack.activeVersion ?? `${pack.version} is wanted`) : `${pack.activeVersion} → ${pack.version}`);

const decide = (pack: Pack, canary: object) => `kubectl patch promptpack ${pack.name} -n ${pack.namespace} --type=merge -p '${JSON.stringify({ spec: { rollout: { canary } } })}'`;

const promptpacks: Kind<Pack> = {
  plural: "promptpacks",
  route: "packs",
  title: "Packs",
  one: "PromptPack",
  resource: "promptpack",
  key: "p",
  block: "packs",
  columns: [
    namespaceColumn,
    { title: "Version", width: "minmax(90px, 0.8fr)", cell: (pack) => mono(versions(pack)) },
    { title: "Rollout", width: "90px", wide: true, spare: true, cell: (pack) => <span className="quiet">{pack.rollout?.type ?? "immediate"}</span> },
    { title: "Runtimes", width: "72px", wide: true, cell: (pack) => mono(pack.agents ?? 0) },
    ageColumn,
  ],
  facts: (pack, now) => [
    ["Active version", mono(pack.activeVersion ?? "none yet")],
    ["Wanted version", mono(pack.version)],
    ["Rollout", pack.canaryVersion ? mono(`canary, ${pack.canaryWeight ?? 0} %`) : (pack.rollout?.type ?? "immediate")],
    ["Runtimes", mono(pack.agents ?? 0)],
    ["Versions kept", mono(pack.versions?.length ?? 0)],
    ["Changed", mono(pack.lastUpdated ? `${age(pack.lastUpdated, now)} ago` : "–")],
  ],
  actions: [
    {
      label: "Promote",
      means: "Every session gets the canary's version, whatever its share and its numbers.",
      command: (pack) => decide(pack, { promote: pack.canaryVersion }),
      run: (pack) => act("promptpacks", pack, "promote"),
      refused: (pack) => (pack.canaryVersion ? undefined : "No canary runs."),
    },
    {
      label: "Abort",
      means: "Every session goes back to the active version; the canary's is not tried again until you say so.",
      command: (pack) => decide(pack, { abort: pack.canaryVersion }),
      run: (pack) => act("promptpacks", pack, "abort"),
      refused: (pack) => (pack.canaryVersion ? undefined : "No canary runs."),
    },
    {
      label: "Try again",
      means: "The version that was aborted becomes a canary again.",
      command: (pack) => decide(pack, { abort: null }),
      run: (pack) => act("promptpacks", pack, "retry"),
      refused: (pack) => (pack.rejected?.reason === "Aborted" ? undefined : "Nobody has aborted a canary of this version."),
    },
  ],
  tabs: ["Versions"],
  commands: (pack) => [`orrery why promptpack ${pack.name} -n ${pack.namespace}`, `kubectl get configmap -n ${pack.namespace} -l omnia.altairalabs.ai/promptpack=${pack.name}`],
  deletes: "the pack and the versions that it keeps. Runtimes that play it stop with a reason until it is back",
  empty: [{ text: "A pack holds prompts in versions; runtimes play it. This one needs no model:", command: apply(PACK, RUNTIME) }],
};

const agentruntimes: Kind<Runtime> = {
  plural: "agentruntimes",
  route: "runtimes",
  title: "Runtimes",
  one: "AgentRuntime",
  resource: "agentruntime",
  key: "r",
  block: "packs",
  columns: [
    namespaceColumn,
    { title: "Pack", width: "minmax(100px, 1fr)", cell: (runtime) => mono(runtime.promptPackRef.name) },
    { title: "Version", width: "80px", wide: true, spare: true, cell: (runtime) => mono(runtime.activeVersion) },
    { title: "Ready", width: "64px", wide: true, cell: (runtime) => mono(`${runtime.replicas?.ready ?? 0} / ${runtime.replicas?.desired ?? 1}`) },
    ageColumn,
  ],
  facts: (runtime) => [
    ["Pack", to("packs", runtime.namespace, runtime.promptPackRef.name)],
    ["Version", mono(runtime.activeVersion ?? "none yet")],
    ["Prompt", mono(runtime.agentName ?? "the pack's entry")],
    ["Tools", to("tools", runtime.namespace, runtime.toolRegistryRef?.name)],
    ["Model", runtime.providerRef ? to("providers", runtime.namespace, runtime.providerRef.name) : mono(runtime.provider?.model ?? runtime.provider?.type ?? "the pack's")],
    ["Address", <span className="mono cut" title={runtime.serviceEndpoint}>{runtime.serviceEndpoint ?? "–"}</span>],
  ],
  actions: [],
  tabs: ["Chat"],
  commands: (runtime) => [`orrery why agentruntime ${runtime.name} -n ${runtime.namespace}`, `kubectl port-forward -n ${runtime.namespace} service/${runtime.name} 8080:${runtime.facade.port ?? 8080}`],
  deletes: "the runtime, its Deployment, Service and Pods",
  empty: [{ text: "A runtime plays a pack: it answers over HTTP and calls tools. With a pack to play:", command: apply(PACK, RUNTIME) }],
};

const available = (registry: Registry) => (registry.discoveredTools ?? []).filter((tool) => tool.status === "Available").length;

const toolregistries: Kind<Registry> = {
  plural: "toolregistries",
  route: "tools",
  title: "Tools",
  one: "ToolRegistry",
  resource: "toolregistry",
  key: "l",
  block: "packs",
  columns: [
    namespaceColumn,
    { title: "Available", width: "80px", cell: (registry) => mono(`${available(registry)} / ${registry.discoveredToolsCount ?? 0}`) },
    { title: "Handlers", width: "minmax(100px, 1fr)", wide: true, cell: (registry) => <span className="quiet cut">{[...new Set((registry.handlers ?? []).map((handler) => handler.type))].join(", ") || "none"}</span> },
    ageColumn,
  ],
  facts: (registry, now) => [
    ["Tools", mono(registry.discoveredToolsCount ?? 0)],
    ["Available", mono(available(registry))],
    ["Handlers", mono(registry.handlers?.length ?? 0)],
    ["Declared only", mono(registry.tools?.length ?? 0)],
    ["Runtimes", mono(store.list("agentruntimes").filter((runtime) => runtime.namespace === registry.namespace && runtime.toolRegistryRef?.name === registry.name).length)],
    ["Last change", mono(registry.lastDiscoveryTime ? `${age(registry.lastDiscoveryTime, now)} ago` : "–")],
  ],
  actions: [],
  tabs: [],
  commands: (registry) => [`orrery why toolregistry ${registry.name} -n ${registry.namespace}`, `kubectl get toolregistry ${registry.name} -n ${registry.namespace} -o jsonpath='{.status.discoveredTools[*].name}'`],
  deletes: "the registry. Runtimes that name it stop with a reason until it is back",
  empty: [{ text: "A registry says who serves which tools, and looks whether they can be had:", command: apply(REGISTRY) }],
};

const agentpolicies: Kind<Policy> = {
  plural: "agentpolicies",
  route: "policies",
  title: "Policies",
  one: "AgentPolicy",
  resource: "agentpolicy",
  key: "y",
  block: "packs",
  columns: [
    namespaceColumn,
    { title: "Rules", width: "minmax(140px, 2fr)", wide: true, cell: (policy) => <span className="quiet cut">{rules(policy).join("; ")}</span> },
    { title: "Runtimes", width: "80px", cell: (policy) => mono(policy.matchedAgents ?? 0) },
    ageColumn,
  ],
  facts: (policy) => [
    ["A call that is not allowed", policy.mode === "permissive" ? "is reported" : "is refused"],
    ["For", mono(policy.selector?.agents?.join(", ") || "every runtime here")],
    ["Runtimes", mono(policy.matchedAgents ?? 0)],
    ["Where it cannot be enforced", policy.onFailure === "allow" ? "what it allows" : "no tool at all"],
  ],
  actions: [],
  tabs: [],
  commands: (policy) => [`orrery why agentpolicy ${policy.name} -n ${policy.namespace}`, `kubectl describe agentpolicy ${policy.name} -n ${policy.namespace}`],
  deletes: "the policy. Its runtimes get the tools that it denied",
  empty: [{ text: "A policy says which tools runtimes may call; to deny wins:", command: apply(POLICY) }],
};

/** A policy's rules in words. */
export function rules(policy: Policy): string[] {
  const blocked = policy.toolBlocklist?.length ? [`denies ${policy.toolBlocklist.join(", ")} of every registry`] : [];
  const access = policy.toolAccess;
  const word = access?.mode === "allowlist" ? "allows only" : "denies";
  return [...blocked, ...(access?.rules ?? []).map((rule) => `${word} ${rule.tools.includes("*") ? "everything" : rule.tools.join(", ")} of ${rule.registry}`)];
}

const providers: Kind<Provider> = {
  plural: "providers",
  route: "providers",
  title: "Providers",
  one: "Provider",
  resource: "provider",
  key: "v",
  block: "packs",
  columns: [
    namespaceColumn,
    { title: "Type", width: "90px", cell: (provider) => mono(provider.type) },
    { title: "Model", width: "minmax(120px, 1fr)", wide: true, cell: (provider) => mono(provider.model) },
    ageColumn,
  ],
  facts: (provider) => [
    ["Type", mono(provider.type)],
    ["Model", mono(provider.model ?? "the type's own")],
    ["Address", <span className="mono cut" title={provider.baseURL}>{provider.baseURL ?? "the type's own"}</span>],
    ["Key", mono(provider.secretRef ? `Secret ${provider.secretRef.name}` : "none")],
    ["Price per 1 000 tokens", mono(provider.pricing ? `${provider.pricing.inputCostPer1K ?? "–"} in, ${provider.pricing.outputCostPer1K ?? "–"} out` : "not said")],
  ],
  actions: [],
  tabs: [],
  commands: (provider) => [`orrery why provider ${provider.name} -n ${provider.namespace}`, `kubectl describe provider ${provider.name} -n ${provider.namespace}`],
  deletes: "the provider. Runtimes that name it stop with a reason until it is back",
  empty: [{ text: "A provider is a model and how to reach it. Its key stays in a Secret:", command: apply(PROVIDER) }],
};

export const OMNIA = { promptpacks, agentruntimes, toolregistries, agentpolicies, providers };
