// What is live of a deployment, from the stream.

import { healthOf, type Health } from "../health";
import { store } from "../plane/store";
import type { Deployment } from "../plane/types";
import { PLURALS, standing, whole, type Resource } from "./standing";

/** A resource and how it is doing. */
export function liveOf(deployment: Deployment, resource: Resource): [Resource, Health] {
  const plural = PLURALS[resource.type];
  // A kind that is not followed, or not yet: nothing is claimed.
  if (!plural || !store.isLoaded(plural)) return [resource, standing(resource, null)];
  const live = store.get(plural, deployment.namespace, resource.name);
  return [resource, standing(resource, live, live ? healthOf(plural, live) : undefined)];
}

export const deploymentHealth = (deployment: Deployment): Health => whole(deployment, deployment.resources.map((resource) => liveOf(deployment, resource)));
