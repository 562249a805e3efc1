// Takes a screenshot of every page: node tests/shots.mjs LOGIN_LINK DIRECTORY [light|dark] [width]
import { chromium } from "playwright-core";

const [link, directory, scheme = "light", width = "1280"] = process.argv.slice(2);
const pages = { overview: "/", tasks: "/tasks", task: "/tasks/default/migrate-db", logs: "/tasks/default/fix-login?tab=logs", yaml: "/tasks/default/bump-deps?tab=yaml", create: "/tasks/create", agents: "/agents", agent: "/agents/default/reviewer", schedules: "/schedules", templates: "/templates", config: "/config" };
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"] });
const page = await browser.newPage({ viewport: { width: Number(width), height: 800 }, colorScheme: scheme });
page.on("console", (message) => message.type() === "error" && console.log("console:", message.text()));
page.on("pageerror", (error) => console.log("page error:", error.message));
await page.goto(link);
for (const [name, path] of Object.entries(pages)) {
  await page.goto(new URL(path, link).href);
  await page.waitForSelector("h1, .empty");
  await page.waitForTimeout(300);
  await page.screenshot({ path: `${directory}/${name}-${scheme}-${width}.png` });
}
await browser.close();
