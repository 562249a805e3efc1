// Every page: it shows what it should, has no barrier that axe knows, and says nothing on the console.

import { afterAll, expect, test } from "vitest";
import { barriers, blank, close, done, kubectl, open, origin } from "./browser";

afterAll(close);

const PAGES: [path: string, shows: string][] = [
  ["/", "Needs attention"],
  ["/tasks", "lint-all"],
  ["/tasks/default/migrate-db", "container agent ended with exit code 2"],
  ["/tasks/default/lint-all?tab=logs", "2 unused imports"],
  ["/tasks/default/lint-all?tab=events", "What happened"],
  ["/tasks/default/bump-deps?tab=yaml", "Show what would change"],
  ["/tasks/create", "Create a Task"],
  ["/agents", "reviewer"],
  ["/agents/default/reviewer", "reviewer-server"],
  ["/agents/default/builder", "AgentTemplate not-there does not exist"],
  ["/schedules", "nightly-audit"],
  ["/schedules/default/nightly-audit", "Next runs, in Europe/Vienna"],
  ["/templates", "one-at-a-time"],
  ["/templates/default/shell", "Agents that follow it"],
  ["/packs", "concierge"],
  ["/packs/default/concierge", "Answers the guests of a small hotel"],
  ["/packs/default/concierge?tab=versions", "What is different"],
  ["/runtimes", "night-porter"],
  ["/runtimes/default/concierge", "What it is made of"],
  ["/runtimes/default/night-porter", "not-written-yet"],
  ["/runtimes/default/concierge?tab=chat", "Say something to"],
  ["/tools", "hotel"],
  ["/tools/default/hotel", "Gives a guest money back"],
  ["/policies", "no-money"],
  ["/policies/default/no-money", "What that means"],
  ["/providers", "rehearsal"],
  ["/providers/default/rehearsal", "Runtimes that ask it"],
  ["/config", "Finished Tasks are deleted"],
  ["/reference", "List every Task that you can see"],
  ["/tasks/default/nowhere", "There is no Task"],
  ["/nowhere", "There is no such page"],
];

for (const [scheme, width] of [["light", 1280], ["light", 1000], ["dark", 390]] as const)
  test(`every page in ${scheme} at ${width} px`, async () => {
    const page = await open("/", { colorScheme: scheme, viewport: { width, height: 800 }, reducedMotion: "reduce" });
    const found: string[] = [];
    for (const [path, shows] of PAGES) {
      await page.goto(origin + path);
      await page.getByText(shows).first().waitFor({ state: "attached" });
      found.push(...(await barriers(page)).map((barrier) => `${path}: ${barrier}`));
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (overflow > 0) found.push(`${path}: ${overflow} px wider than the window`);
      const cut = await page.evaluate(() => [...document.querySelectorAll(".list .scroll")].some((list) => list.scrollWidth > list.clientWidth));
      if (cut) found.push(`${path}: the list is cut off`);
    }
    expect(found).toEqual([]);
    await done(page);
  });

test("nobody gets in without credentials, and a token lets in", async () => {
  const page = await blank();
  await page.goto(origin + "/tasks");
  await page.getByRole("heading", { name: "Sign in to Orrery" }).waitFor();
  expect(await barriers(page)).toEqual([]);
  await page.getByRole("textbox", { name: "Token" }).fill("not-a-token");
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByText("The token is not valid or has expired").waitFor();
  await page.getByRole("textbox", { name: "Token" }).fill(kubectl("create", "token", "administrator", "-n", "kube-system"));
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in to Orrery" }).waitFor();
  await done(page, [/401/]);
});

test("the link signs in once", async () => {
  const { inject } = await import("vitest");
  const page = await blank();
  await page.goto(inject("link"));
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  const again = await page.request.get(inject("link"), { maxRedirects: 0 });
  expect(again.status()).toBe(401);
  await done(page);
});

test("who may see one namespace sees nothing of another", async () => {
  const page = await open("/tasks", { token: kubectl("create", "token", "blue", "-n", "team-blue") });
  await page.getByRole("link", { name: "rotate-keys" }).waitFor();
  await page.goto(origin + "/agents");
  await page.getByRole("link", { name: "night-shift" }).waitFor();
  for (const path of ["/", "/tasks", "/agents", "/schedules", "/templates", "/packs", "/runtimes", "/tools", "/policies", "/providers"]) {
    await page.goto(origin + path);
    await page.getByRole("heading").first().waitFor();
    await page.locator("[role=status], h2").first().waitFor();
    const text = (await page.locator("body").textContent()) ?? "";
    for (const other of ["lint-all", "fix-login", "reviewer", "every-minute", "concierge", "hotel", "no-money", "rehearsal"]) expect(text, path).not.toContain(other);
  }
  await page.goto(origin + "/tasks/default/lint-all");
  await page.getByText("There is no Task").waitFor();
  await done(page);
});
