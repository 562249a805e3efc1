// A real `orrery up` with something of everything on it, for all browser tests together.

import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { TestProject } from "vitest/node";

declare module "vitest" {
  interface ProvidedContext {
    link: string;
    kubeconfig: string;
  }
}

export const binary = resolve(process.env.ORRERY ?? "../target/debug/orrery");

/** A running `orrery up` with data of its own. */
export interface Plane {
  link: string;
  kubeconfig: string;
  stop: () => Promise<void>;
}

export async function start(...flags: string[]): Promise<Plane> {
  if (!existsSync(binary)) throw new Error(`${binary} is not there: cargo build --package orrery`);
  const data = mkdtempSync(join(tmpdir(), "orrery-e2e-"));
  const plane = spawn(binary, ["up", "--data-dir", data, "--api-port", "0", "--server-port", "0", ...flags], { stdio: ["ignore", "ignore", "pipe"] });
  const stop = async () => {
    const ended = plane.exitCode === null ? new Promise((done) => plane.once("exit", done)) : undefined;
    plane.kill("SIGTERM");
    await ended;
    execFileSync(binary, ["down", "--data-dir", data], { stdio: "ignore" });
    rmSync(data, { recursive: true, force: true });
  };
  try {
    return { link: await saysWhere(plane), kubeconfig: join(data, "kubeconfig"), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

export default async function setup(project: TestProject) {
  const plane = await start();
  try {
    populate(plane.kubeconfig);
  } catch (error) {
    await plane.stop();
    throw error;
  }
  project.provide("link", plane.link);
  project.provide("kubeconfig", plane.kubeconfig);
  return plane.stop;
}

/** The login link that it prints once it is up. */
function saysWhere(plane: ChildProcess): Promise<string> {
  return new Promise((found, failed) => {
    let said = "";
    plane.stderr?.on("data", (text: Buffer) => {
      said += text.toString();
      const link = /http:\S+\/login\?token=\w+/.exec(said);
      if (link) found(link[0]);
    });
    plane.once("exit", () => failed(new Error(`orrery up ended: ${said}`)));
  });
}

function populate(kubeconfig: string) {
  const kubectl = (...words: string[]) => execFileSync("kubectl", ["--kubeconfig", kubeconfig, ...words], { stdio: ["ignore", "ignore", "inherit"] });
  kubectl("apply", "-f", "tests/e2e/world.yaml");
  const phases = { "lint-all": "Completed", "migrate-db": "Failed", "fix-login": "Running", "bump-deps": "Queued" };
  for (const [task, phase] of Object.entries(phases)) kubectl("wait", `task/${task}`, `--for=jsonpath={.status.phase}=${phase}`, "--timeout=90s");
  kubectl("wait", "agentruntime/concierge", "agentruntime/parrot", "--for=jsonpath={.status.phase}=Running", "--timeout=120s");
  kubectl("wait", "toolregistry/hotel", "--for=jsonpath={.status.phase}=Degraded", "--timeout=90s");
  kubectl("wait", "agent/reviewer", "--for=condition=ServerReady", "--timeout=90s");
  kubectl("wait", "task/rotate-keys", "-n", "team-blue", "--for=jsonpath={.status.phase}=Completed", "--timeout=90s");
}
