// What a person does with Tasks.

import { readFileSync } from "node:fs";
import { afterAll, expect, test } from "vitest";
import { barriers, close, done, kubectl, open, origin } from "./browser";

afterAll(close);

test("creates a Task on a template, sees its log live, stops it, and deletes it", async () => {
  const page = await open("/tasks");
  await page.getByRole("link", { name: "+ Task" }).click();
  await page.getByLabel("What to do").fill('for n in 1 2 3; do echo "line $n"; done; sleep 600');
  await page.getByLabel("Runs on").selectOption("template:default/shell");
  await page.getByLabel("Name").fill("made-by-hand");
  await page.getByText("name: made-by-hand").waitFor();
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("log").getByText("line 3").waitFor();
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByRole("dialog").getByText("kubectl annotate task made-by-hand").waitFor();
  expect(await barriers(page)).toEqual([]);
  await page.getByRole("dialog").getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByText("Stopped", { exact: true }).first().waitFor();
  await page.getByText("Ended.").waitFor();
  expect(kubectl("get", "task", "made-by-hand", "-o", "jsonpath={.status.phase}")).toBe("Completed");
  // The Pod is gone by now or soon; the log is kept.
  kubectl("wait", "pod/made-by-hand-pod", "--for=delete", "--timeout=60s");
  await page.reload();
  await page.getByRole("log").getByText("line 3").waitFor();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByRole("heading", { name: "Tasks" }).waitFor();
  await page.getByRole("link", { name: "made-by-hand" }).waitFor({ state: "detached" });
  await done(page);
});

test("an Agent can be chosen, and a refusal says which field", async () => {
  const page = await open("/agents/default/reviewer");
  await page.getByRole("link", { name: "New Task" }).click();
  await page.getByText("Reads changes, points at what is wrong").waitFor();
  expect(await page.getByLabel("Runs on").inputValue()).toBe("agent:default/reviewer");
  await page.getByLabel("What to do").fill("Look at the last change.");
  await page.getByLabel("Timeout").fill("soon");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("alert").getByText("timeout").waitFor();
  await done(page, [/42[0-9]|400/]);
});

test("runs a Task again with what it had", async () => {
  const page = await open("/tasks/default/fix-login");
  await page.getByRole("link", { name: "Run again" }).click();
  await page.getByText("like fix-login, with its 1 contexts").waitFor();
  expect(await page.getByLabel("What to do").inputValue()).toContain("reading the login page");
  expect(await page.getByLabel("Runs on").inputValue()).toBe("template:default/one-at-a-time");
  await done(page);
});

test("filters are in the address, and back works", async () => {
  const page = await open("/tasks");
  await page.getByRole("link", { name: "rotate-keys" }).waitFor();
  await page.getByLabel("Namespace").selectOption("team-blue");
  await page.getByRole("link", { name: "lint-all" }).waitFor({ state: "detached" });
  expect(new URL(page.url()).searchParams.get("ns")).toBe("team-blue");
  await page.goto(origin + "/tasks?state=Failed");
  await page.getByRole("link", { name: "migrate-db" }).waitFor();
  expect(await page.getByRole("link", { name: "lint-all" }).count()).toBe(0);
  await page.goto(origin + "/tasks?q=team%3Daccounts");
  await page.getByRole("link", { name: "fix-login" }).click();
  await page.getByRole("heading", { name: "fix-login" }).waitFor();
  await page.goBack();
  expect(await page.getByLabel("Filter by name or label").inputValue()).toBe("team=accounts");
  await page.getByLabel("Filter by name or label").fill("nothing-has-this-name");
  await page.getByRole("button", { name: "Show everything" }).click();
  await page.getByRole("link", { name: "lint-all" }).waitFor();
  await done(page);
});

test("the log can be searched, wrapped, followed, linked and downloaded", async () => {
  const page = await open("/tasks/default/lint-all?tab=logs");
  await page.getByRole("log").getByText("2 unused imports").waitFor();
  // Colours become styles, and nothing of the escapes is left.
  const text = (await page.getByRole("log").textContent()) ?? "";
  expect(text).toContain("ok      parser");
  expect(text).not.toContain("[32m");
  expect(await page.getByText("warning", { exact: true }).getAttribute("style")).toContain("color");
  await page.getByLabel("Search the log").fill("OK ");
  await page.getByText("1 of 2").waitFor();
  await page.getByLabel("Search the log").press("Enter");
  await page.getByText("2 of 2").waitFor();
  await page.getByRole("button", { name: "Next match" }).click();
  await page.getByText("1 of 2").waitFor();
  await page.getByLabel("Wrap").check();
  await page.getByLabel("Follow").uncheck();
  await page.getByRole("link", { name: "Link to line 2" }).click();
  expect(new URL(page.url()).hash).toBe("#L2");
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download" }).click()]);
  expect(download.suggestedFilename()).toBe("lint-all.log");
  expect(readFileSync(await download.path(), "utf8").split("\n")).toEqual(["checking 3 packages", "ok      parser", "ok      printer", "warning server: 2 unused imports", ""]);
  await page.goto(origin + "/tasks/default/migrate-db?tab=logs");
  await page.getByRole("button", { name: "First error" }).click();
  await page.locator(".hit").getByText("has no column").waitFor();
  await done(page);
});

test("a log of 100,000 lines keeps its pace", async () => {
  kubectl("create", "-f", "tests/e2e/long-log.yaml");
  const page = await open("/tasks/default/long-log?tab=logs");
  await page.getByText(/100\D?000 lines/).waitFor();
  // Only what is in sight is in the page.
  expect(await page.locator(".log .text").count()).toBeLessThan(200);
  await page.getByLabel("Search the log").fill("line 50000 ");
  await page.locator(".hit").getByText("line 50000").waitFor();
  kubectl("delete", "task", "long-log", "--wait=false");
  await done(page);
});

test("YAML: shows what would change, refuses nonsense by field, applies", async () => {
  const page = await open("/tasks/default/bump-deps?tab=yaml");
  const editor = page.getByLabel("The object as YAML");
  const ready = page.getByRole("button", { name: "Show what would change" });
  await page.waitForFunction(() => document.querySelector("textarea")?.value.includes("one-at-a-time"));
  expect(await editor.inputValue()).not.toContain("last-applied-configuration");
  const original = await editor.inputValue();
  await editor.fill(original.replace("  name: bump-deps", "  labels:\n    reviewed: yes-it-is\n  name: bump-deps"));
  await ready.click();
  await page.getByLabel("What would change").getByText("+     reviewed: yes-it-is").waitFor();
  expect(kubectl("get", "task", "bump-deps", "-o", "jsonpath={.metadata.labels.reviewed}")).toBe("");
  await page.getByRole("button", { name: "Apply", exact: true }).click();
  await ready.and(page.locator(":disabled")).waitFor();
  expect(kubectl("get", "task", "bump-deps", "-o", "jsonpath={.metadata.labels.reviewed}")).toBe("yes-it-is");
  expect(kubectl("get", "task", "bump-deps", "-o", "jsonpath={.metadata.annotations}")).toContain("last-applied-configuration");
  await editor.fill(original.replace("spec:", "spec:\n  nonsense: true"));
  await ready.click();
  await page.getByRole("alert").waitFor();
  await done(page, [/4\d\d/]);
});

test("what changes elsewhere shows at once", async () => {
  const page = await open("/tasks");
  await page.getByRole("link", { name: "lint-all" }).waitFor();
  kubectl("create", "-f", "tests/e2e/quick.yaml");
  await page.getByRole("link", { name: "quick" }).waitFor();
  await page.getByRole("row", { name: /quick/ }).getByText("Completed").waitFor();
  kubectl("delete", "task", "quick");
  await page.getByRole("link", { name: "quick" }).waitFor({ state: "detached" });
  await done(page);
});
