// A log and a terminal that somebody leaves open: long enough for every heartbeat, or with ORRERY_TEST_LONG for half an
// hour.

import { readFileSync } from "node:fs";
import { afterAll, expect, test } from "vitest";
import { close, done, kubectl, open } from "./browser";

afterAll(close);

const LONG = Boolean(process.env.ORRERY_TEST_LONG);
const LEFT_OPEN = LONG ? 30 * 60_000 : 45_000;

test("a log and a terminal that are left open stay right", async () => {
  kubectl("wait", "agent/reviewer", "--for=condition=ServerReady", "--timeout=90s");
  const log = await open("/tasks/default/fix-login?tab=logs");
  await log.getByRole("log").getByText(/step \d+/).first().waitFor();
  const terminal = await open("/agents/default/reviewer?tab=terminal");
  await terminal.getByText("A shell in the Pod of reviewer").waitFor();
  const type = async (text: string) => {
    await terminal.locator(".xterm-helper-textarea").focus();
    await terminal.keyboard.type(text);
  };
  await type("kept=$((40 + 2)); echo first-$kept\n");
  await terminal.locator(".xterm").getByText("first-42").first().waitFor();
  await new Promise((passed) => setTimeout(passed, LEFT_OPEN));
  // The same shell, with what it was told.
  await type("echo later-$kept\n");
  await terminal.locator(".xterm").getByText("later-42").first().waitFor();
  await log.getByText("Following.").waitFor();
  const [download] = await Promise.all([log.waitForEvent("download"), log.getByRole("button", { name: "Download" }).click()]);
  const lines = readFileSync(await download.path(), "utf8").trimEnd().split("\n");
  expect(lines.length).toBeGreaterThan(LEFT_OPEN / 2000);
  expect(lines.slice(1)).toEqual(lines.slice(1).map((_, index) => `step ${index + 1}`));
  await done(log);
  await done(terminal);
}, LEFT_OPEN + 120_000);
