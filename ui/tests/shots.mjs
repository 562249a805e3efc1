// Takes a screenshot of every page for a person to look at:
//   node tests/shots.mjs LOGIN_LINK_OR_ADDRESS DIRECTORY [page …]
// The first call needs a login link; the session is kept in DIRECTORY for later ones.
import { existsSync, mkdirSync } from "node:fs";
import { chromium } from "playwright-core";

const [link, directory, ...only] = process.argv.slice(2);
const pages = {
  overview: "/", tasks: "/tasks", task: "/tasks/default/migrate-db", logs: "/tasks/default/fix-login?tab=logs", events: "/tasks/default/lint-all?tab=events",
  yaml: "/tasks/default/bump-deps?tab=yaml", create: "/tasks/create", agents: "/agents", agent: "/agents/default/reviewer", broken: "/agents/default/builder",
  terminal: "/agents/default/reviewer?tab=terminal", schedules: "/schedules", schedule: "/schedules/default/every-minute", templates: "/templates", template: "/templates/default/shell",
  packs: "/packs", pack: "/packs/default/concierge", versions: "/packs/default/concierge?tab=versions", runtimes: "/runtimes", runtime: "/runtimes/default/concierge", tools: "/tools", registry: "/tools/default/hotel",
  deployments: "/deployments", deployment: "/deployments/default/orrery-deploy-porter", chat: "/runtimes/default/concierge?tab=chat", policies: "/policies", policy: "/policies/default/no-money", providers: "/providers", provider: "/providers/default/rehearsal", config: "/config", api: "/reference", missing: "/tasks/default/nowhere",
};
mkdirSync(directory, { recursive: true });
const state = `${directory}/session.json`;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"] });
for (const [scheme, width] of [["light", 1280], ["dark", 1280], ["light", 1000], ["dark", 1000], ["light", 390], ["dark", 390]]) {
  const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme: scheme, storageState: existsSync(state) ? state : undefined });
  const page = await context.newPage();
  page.on("console", (message) => message.type() === "error" && console.log("console:", message.text()));
  page.on("pageerror", (error) => console.log("page error:", error.message));
  if (!existsSync(state)) {
    await page.goto(link);
    await context.storageState({ path: state });
  }
  for (const [name, path] of Object.entries(pages)) {
    if (only.length > 0 && !only.includes(name)) continue;
    await page.goto(new URL(path, link).href);
    await page.waitForSelector("h1, .empty");
    await page.waitForTimeout(400);
    await page.screenshot({ path: `${directory}/${name}-${scheme}-${width}.png` });
  }
  await context.close();
}
await browser.close();
