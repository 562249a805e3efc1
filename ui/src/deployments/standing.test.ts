import { expect, test } from "vitest";
import type { Deployment, Item } from "../plane/types";
import { standing, whole } from "./standing";

const live = { name: "shop", namespace: "default", uid: "u", generation: 2, resourceVersion: "1", createdAt: "", conditions: [] } as Item;
const resource = { type: "prompt_pack", name: "shop", uid: "u", generation: 2, status: "created" };

test("what is live decides, unless the state says that it failed", () => {
  const word = (changed: object, found: Item | null | undefined) => standing({ ...resource, ...changed }, found).word;
  expect(word({}, live)).toBe("Deployed");
  expect(word({ status: "failed" }, live)).toBe("Failed");
  expect(word({}, undefined)).toBe("Missing");
  expect(word({}, null)).toBe("Deployed");
  expect(word({ uid: "other" }, live)).toBe("Replaced");
  expect(word({ generation: 1 }, live)).toBe("Drifted");
  expect(word({ generation: undefined }, live)).toBe("Deployed");
});

test("a deployment is as well as the worst of its resources", () => {
  const deployment = { ...live, pack: "shop", version: "1.0.0", serial: 1, resources: [resource] } as Deployment;
  expect(whole(deployment, [[resource, { shape: "done", word: "Active" }], [resource, { shape: "degraded", word: "Drifted", why: "Why." }]])).toMatchObject({ shape: "degraded", why: "shop: Why." });
  expect(whole({ ...deployment, problem: "broken" }, []).word).toBe("Unreadable");
  expect(whole(deployment, [[resource, { shape: "running", word: "Running" }]]).word).toBe("Deployed");
});
