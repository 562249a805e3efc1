// What `orrery deploy` has made, as its page shows it.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { afterAll, expect, inject, test } from "vitest";
import { deploy } from "../../src/begin";
import { barriers, close, done, kubectl, open, origin } from "./browser";
import { binary } from "./plane";

const folder = mkdtempSync(join(tmpdir(), "orrery-deploy-"));
afterAll(async () => {
  await close();
  rmSync(folder, { recursive: true, force: true });
});

/** Runs a command as a person would, in a folder of its own. */
const shell = (command: string) =>
  execFileSync("sh", ["-c", command], { cwd: folder, env: { ...process.env, KUBECONFIG: inject("kubeconfig"), PATH: `${dirname(binary)}${delimiter}${process.env.PATH}` }, stdio: ["ignore", "pipe", "inherit"] }).toString();

test("a deployment: what was made, what was planned, what others changed", async () => {
  // Nobody has deployed anything: the page says how, and what it says works.
  const page = await open("/deployments");
  await page.getByText("No deployments yet.").waitFor();
  expect(await barriers(page)).toEqual([]);
  shell(deploy);
  await page.getByRole("link", { name: "orrery-deploy-porter" }).click();
  await page.locator(".head").getByText("Deployed").waitFor();
  const row = (name: string) => page.getByRole("row", { name: new RegExp(name) });
  await row("agent_runtime").getByText("Running").waitFor();
  await row("prompt_pack").getByText("Active").waitFor();
  const changes = page.getByLabel("Changes", { exact: true });
  await changes.getByText("agent_runtime porter").waitFor();
  await page.getByText("3 to create, 0 to update, 0 to delete").waitFor();

  // A new version: which fields were changed.
  const pack = readFileSync(join(folder, "pack.json"), "utf8");
  writeFileSync(join(folder, "pack.json"), pack.replaceAll("1.0.0", "1.1.0").replace("carry bags", "carry bags with care"));
  shell("orrery deploy apply --pack pack.json --config deploy.yaml");
  const field = (name: string) => changes.getByRole("row").filter({ has: page.getByRole("cell", { name, exact: true }) });
  await field("spec.version").getByText("− 1.0.0").waitFor();
  await field("spec.version").getByText("+ 1.1.0").waitFor();
  await page.locator(".facts").getByText("1.1.0").waitFor();
  expect(await barriers(page)).toEqual([]);

  // Someone else changes an object: the page sees that it drifted, and after a refresh what and by whom.
  kubectl("patch", "promptpack", "porter", "--type=merge", "-p", '{"spec":{"description":"not ours"}}');
  await row("prompt_pack").getByText("Drifted").waitFor();
  await page.locator(".head").getByText("Drifted").waitFor();
  shell("orrery deploy refresh --pack pack.json --config deploy.yaml");
  await page.getByText("Others changed 1 of its objects").waitFor();
  await field("spec.description").getByText("− not ours").waitFor();
  await field("spec.description").getByText("set by kubectl-patch").waitFor();
  shell("orrery deploy apply --pack pack.json --config deploy.yaml");
  await row("prompt_pack").getByText("Active").waitFor();
  await page.locator(".head").getByText("Deployed").waitFor();

  // Who may not read Secrets sees none, and is not kept waiting.
  const other = await open("/deployments", { token: kubectl("create", "token", "blue", "-n", "team-blue") });
  await other.getByText("No deployments yet.").waitFor();
  await done(other);

  shell("orrery deploy destroy --pack pack.json --config deploy.yaml");
  await page.getByText("There is no Deployment").waitFor();
  await page.goto(origin + "/deployments");
  await page.getByText("No deployments yet.").waitFor();
  await done(page);
});
