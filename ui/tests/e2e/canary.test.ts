// A canary as a person sees it: its share, both sides' numbers, the slider, promote and abort.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { afterAll, expect, inject, test } from "vitest";
import { barriers, close, done, kubectl, open } from "./browser";

afterAll(close);

const apply = (version: string) =>
  execFileSync("kubectl", ["--kubeconfig", inject("kubeconfig"), "apply", "-f", "-"], { input: readFileSync("tests/e2e/canary.yaml", "utf8").replaceAll("VERSION", version) });

test("a canary gets its share, is weighed, aborted, tried again and promoted", async () => {
  apply("1.0.0");
  kubectl("wait", "agentruntime/doorman", "--for=jsonpath={.status.phase}=Running", "--timeout=120s");
  const page = await open("/packs/default/doorman");
  await page.locator(".head").getByText("Active").waitFor();
  expect(await page.getByRole("button", { name: "Promote" }).isDisabled()).toBe(true);
  const act = async (verb: string) => {
    await page.getByRole("button", { name: verb, exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: verb, exact: true }).click();
  };

  apply("1.1.0");
  const canary = page.getByRole("region", { name: "Canary" });
  await canary.getByRole("heading", { name: "Canary of version 1.1.0" }).waitFor();
  await page.locator(".head").getByText("Canary").waitFor();
  await canary.getByText("1 of 1 runtimes have it").waitFor({ timeout: 120_000 });

  // Real conversations, each a session of its own, meet one of the two versions; the numbers come by the stream.
  const heard = new Set<string>();
  const chat = await open("/runtimes/default/doorman?tab=chat");
  const message = chat.getByRole("textbox", { name: "Message" });
  for (let guest = 0; guest < 60 && heard.size < 2; guest++) {
    await message.fill(`guest ${guest}`);
    await message.press("Enter");
    const log = chat.getByRole("log");
    const answer = await log.getByText(new RegExp(`version \\d\\.\\d\\.\\d\\.\\] You said: guest ${guest}(?!\\d)`)).or(log.getByRole("alert")).textContent().catch(async () => `neither an answer nor an error: ${await chat.getByRole("region", { name: "Chat" }).innerText()}; in the box: ${await message.inputValue()}`);
    expect(answer).toMatch(/version \d\.\d\.\d\./);
    heard.add(/version (\d\.\d\.\d)\./.exec(answer ?? "")?.[1] ?? "");
    await chat.getByRole("button", { name: "New conversation" }).click();
  }
  expect([...heard].sort()).toEqual(["1.0.0", "1.1.0"]);
  await done(chat);
  const side = (name: string) => canary.getByRole("row", { name: new RegExp(name) });
  await side("canary 1.1.0").getByText(/\d+\.\d %/).first().waitFor();
  await side("canary 1.1.0").getByText(/\d+ ms/).first().waitFor();
  await side("stable 1.0.0").getByText(/0 \(0\.0 %\)/).waitFor();
  expect(await barriers(page)).toEqual([]);

  await canary.getByLabel("Share of the sessions").fill("25");
  await canary.getByRole("button", { name: "Set 25 %" }).click();
  await canary.getByRole("button", { name: "It is 25 %" }).waitFor();
  expect(kubectl("get", "promptpack", "doorman", "-o", "jsonpath={.spec.rollout.canary.weight}")).toBe("25");

  await act("Abort");
  await page.getByText(/was given up \(Aborted\)/).waitFor();
  await page.locator(".facts").getByText("1.0.0", { exact: true }).first().waitFor();
  await act("Try again");
  await canary.getByRole("heading", { name: "Canary of version 1.1.0" }).waitFor();
  await canary.getByText("1 of 1 runtimes have it").waitFor({ timeout: 120_000 });
  await act("Promote");
  await page.locator(".head").getByText("Active").waitFor({ timeout: 120_000 });
  await canary.waitFor({ state: "detached" });
  expect(kubectl("get", "promptpack", "doorman", "-o", "jsonpath={.status.activeVersion}")).toBe("1.1.0");
  kubectl("delete", "agentruntime/doorman", "promptpack/doorman", "configmap/doorman-packdata", "--wait=false");
  await done(page);
}, 480_000);
