// How what was deployed is doing: what the state says, beside what is live. Pure.

import type { Health } from "../health";
import type { Deployment, Item, Plural } from "../plane/types";

export type Resource = Deployment["resources"][number];

/** The kinds that pages show, by the words of a state. */
export const PLURALS: Partial<Record<string, Plural>> = { prompt_pack: "promptpacks", tool_registry: "toolregistries", agent_policy: "agentpolicies", agent_runtime: "agentruntimes" };

/** What a resource is in, as far as can be seen. `live` is undefined where it is gone, null where nobody can tell. */
export function standing(resource: Resource, live: Item | undefined | null, health?: Health): Health {
  if (resource.status === "failed") return { shape: "failed", word: "Failed", why: "The last apply did not complete it. Apply again: it goes on from here." };
  if (live === null) return { shape: "done", word: "Deployed" };
  if (!live) return { shape: "failed", word: "Missing", why: "It is gone, although nobody removed it by orrery deploy." };
  if (resource.uid && live.uid !== resource.uid) return { shape: "degraded", word: "Replaced", why: "Someone deleted it and made another of the same name." };
  if (resource.generation !== undefined && live.generation !== undefined && live.generation !== resource.generation) return { shape: "degraded", word: "Drifted", why: "Someone changed it since it was deployed. A plan says which fields." };
  return health ?? { shape: "done", word: "Deployed" };
}

const GRAVITY: Health["shape"][] = ["failed", "degraded", "waiting"];

/** The deployment as a whole is as well as the worst of its resources. */
export function whole(deployment: Deployment, standings: [Resource, Health][]): Health {
  if (deployment.problem) return { shape: "failed", word: "Unreadable", why: deployment.problem };
  if (deployment.lock) return { shape: "running", word: "In work", why: `${deployment.lock.owner} has the lock (${deployment.lock.operation}).` };
  for (const shape of GRAVITY) {
    const bad = standings.filter(([, health]) => health.shape === shape);
    const [first] = bad;
    if (first) return { shape, word: first[1].word, why: `${first[0].name}: ${first[1].why ?? first[1].word}${bad.length > 1 ? ` And ${bad.length - 1} more.` : ""}` };
  }
  return { shape: "done", word: "Deployed" };
}
