// What a person does with Agents, schedules, templates and settings.

import { execFileSync } from "node:child_process";
import { afterAll, expect, inject, test } from "vitest";
import { AGENT, apply, CRON_TASK, PACK, POLICY, PROVIDER, REGISTRY, RUNTIME, TASK, TEMPLATE } from "../../src/begin";
import { close, done, kubectl, open, origin } from "./browser";

afterAll(close);

test("an Agent shows what it is made of, and can be suspended and resumed", async () => {
  const page = await open("/agents/default/reviewer");
  const tree = page.locator(".tree").first();
  await tree.getByText("Deployment").waitFor();
  await tree.getByText("reviewer-server", { exact: true }).waitFor();
  await tree.getByText("opencode-server").waitFor();
  await tree.getByText("Service").waitFor();
  const act = async (verb: string) => {
    await page.getByRole("button", { name: verb, exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: verb, exact: true }).click();
  };
  await act("Suspend");
  await page.locator(".head").getByText("Suspended").waitFor();
  await tree.getByText("Scaled to 0").waitFor();
  await act("Resume");
  await page.locator(".head").getByText("Ready").waitFor();
  await tree.getByText("opencode-server").first().waitFor();
  await done(page);
});

test("a terminal in the Agent's Pod", async () => {
  kubectl("wait", "agent/reviewer", "--for=condition=ServerReady", "--timeout=90s");
  const page = await open("/agents/default/reviewer?tab=terminal");
  await page.getByText("A shell in the Pod of reviewer").waitFor();
  await page.locator(".xterm-helper-textarea").focus();
  await page.keyboard.type("echo sum-$((40 + 2)); stty size\n");
  await page.locator(".xterm").getByText("sum-42").first().waitFor();
  await page.keyboard.type("exit\n");
  await page.getByText("The terminal's program has ended.").waitFor();
  await page.getByRole("button", { name: "Open again" }).click();
  await page.getByText("A shell in the Pod of reviewer").waitFor();
  await page.goto(origin + "/agents/team-blue/night-shift?tab=terminal");
  await page.getByText("has no running Pod").waitFor();
  await done(page, [/WebSocket|409|400/]);
});

test("a terminal ends when its session does", async () => {
  const page = await open("/agents");
  const ended = new Promise<string>((resolve) => {
    page.on("websocket", (socket) =>
      socket.on("framereceived", ({ payload }) => {
        if (payload.toString().includes('"type":"end"')) resolve(payload.toString());
      }),
    );
  });
  await page.goto(origin + "/agents/default/reviewer?tab=terminal");
  await page.locator(".xterm-helper-textarea").focus();
  await page.keyboard.type("echo sum-$((40 + 2))\n");
  await page.locator(".xterm").getByText("sum-42").first().waitFor();
  // Signed out elsewhere: in another tab, say.
  await page.evaluate(() => fetch("/logout", { method: "POST" }));
  expect(await ended).toContain("You have signed out");
  await done(page, [/401|WebSocket/]);
});

test("a schedule runs now, is suspended and resumed, and shows what comes", async () => {
  const page = await open("/schedules");
  await page.getByRole("img", { name: /in the next five days/ }).first().waitFor();
  await page.getByRole("table").getByRole("link", { name: "nightly-audit" }).click();
  const act = async (verb: string) => {
    await page.getByRole("button", { name: verb, exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: verb, exact: true }).click();
  };
  await page.getByText("02:30").first().waitFor();
  await act("Run now");
  await page.getByRole("link", { name: /nightly-audit-/ }).first().waitFor();
  await act("Suspend");
  await page.locator(".head").getByText("Suspended").waitFor();
  await page.getByText("None while it is suspended").waitFor();
  await act("Resume");
  await page.locator(".head").getByText(/Scheduled|Active/).waitFor();
  expect(kubectl("get", "crontask", "nightly-audit", "-o", "jsonpath={.spec.suspend}")).toBe("false");
  await page.goto(origin + "/schedules/team-blue/month-end");
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByRole("heading", { name: "Schedules" }).waitFor();
  await page.getByRole("table").getByRole("link", { name: "month-end" }).waitFor({ state: "detached" });
  await done(page);
});

test("a template names the Agents that follow it", async () => {
  const page = await open("/templates/default/shell");
  await page.getByRole("link", { name: "reviewer" }).click();
  await page.getByRole("heading", { name: "reviewer" }).waitFor();
  await done(page);
});

test("settings are made where there were none, and changed", async () => {
  const page = await open("/config");
  await page.getByText("Nobody has made settings yet").waitFor();
  const editor = page.getByLabel("The object as YAML");
  await page.waitForFunction(() => document.querySelector("textarea")?.value.includes("KubeOpenCodeConfig"));
  const text = await editor.inputValue();
  await editor.fill(text.replace(/spec: .*|spec:$/m, "spec:\n  cleanup:\n    maxRetainedTasks: 500"));
  await page.getByRole("button", { name: "Apply", exact: true }).click();
  await page.getByText("500 at most").waitFor();
  expect(kubectl("get", "kubeopencodeconfig", "cluster", "-o", "jsonpath={.spec.cleanup.maxRetainedTasks}")).toBe("500");
  kubectl("delete", "kubeopencodeconfig", "cluster");
  await done(page);
});

test("deleting an Agent whose volumes are lost with it needs its name", async () => {
  kubectl("apply", "-f", "tests/e2e/keeper.yaml");
  const page = await open("/agents/default/keeper");
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  const confirm = page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true });
  expect(await confirm.isDisabled()).toBe(true);
  await page.getByLabel(/are lost with it/).fill("keeper");
  await confirm.click();
  await page.getByRole("heading", { name: "Agents" }).waitFor();
  await page.getByRole("link", { name: "keeper" }).waitFor({ state: "detached" });
  await done(page);
});

test("what empty pages teach works as it stands", () => {
  for (const manifest of [TEMPLATE, TASK, AGENT, CRON_TASK, PACK, RUNTIME, REGISTRY, POLICY, PROVIDER]) {
    const command = apply(manifest).replace("kubectl apply", `kubectl --kubeconfig ${inject("kubeconfig")} apply --dry-run=server`);
    expect(execFileSync("sh", ["-c", command]).toString()).toContain("(server dry run)");
  }
});

test("keys, palette and theme", async () => {
  const page = await open("/");
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("t");
  await page.getByRole("heading", { name: "Tasks" }).waitFor();
  await page.keyboard.press("/");
  expect(await page.getByLabel("Filter by name or label").evaluate((field) => field === document.activeElement)).toBe(true);
  await page.keyboard.press("Escape");
  await page.getByRole("heading", { name: "Tasks" }).click();
  await page.keyboard.press("Control+k");
  await page.keyboard.type("fix-log");
  await page.getByRole("option", { name: /fix-login/ }).waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "fix-login" }).waitFor();
  await page.getByRole("button", { name: /shows keys/ }).click();
  await page.getByText("Find anything").waitFor();
  await page.getByRole("button", { name: "Close" }).click();
  await page.getByLabel("Theme").selectOption("dark");
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  expect(await background()).toBe("rgb(20, 22, 26)");
  await page.reload();
  expect(await background()).toBe("rgb(20, 22, 26)");
  await done(page);
});

test("the reference lists every route and tries what only reads", async () => {
  const page = await open("/reference");
  await page.getByText("/api/v1/namespaces/{namespace}/tasks/{name}/logs").waitFor();
  await page.getByLabel("Filter routes").fill("/api/v1/namespaces get");
  await page.getByLabel("Filter routes").fill("Namespaces that you can see");
  await page.getByText("/api/v1/namespaces", { exact: true }).click();
  await page.getByRole("button", { name: "Try it" }).click();
  await page.getByLabel("Answer").getByText("team-blue").waitFor();
  await done(page);
});
