// Measures what a person feels, in a real Chromium against a running server, and prints it as JSON:
//   node tests/measure.mjs ADDRESS TOKEN [everything|page]
// The plane should hold the Tasks it is to be measured with.
import { Agent, request } from "node:http";
import { chromium } from "playwright-core";

const [address, token, what = "everything"] = process.argv.slice(2);
const headers = { authorization: `Bearer ${token}` };
const FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];
const quantile = (numbers, part) => numbers.toSorted((a, b) => a - b)[Math.min(numbers.length - 1, Math.floor(numbers.length * part))];
const passed = (ms) => new Promise((done) => setTimeout(done, ms));

async function api(method, path, body) {
  const response = await fetch(`${address}/api/v1${path}`, { method, headers: { ...headers, "content-type": "application/json" }, body: body && JSON.stringify(body) });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return response;
}

async function firstLoad(browser) {
  const times = [];
  let bytes = 0;
  for (let round = 0; round < 5; round++) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    const page = await context.newPage();
    await page.request.post(`${address}/login`, { headers });
    const begin = Date.now();
    await page.goto(`${address}/tasks`, { waitUntil: "commit" });
    // Interactive: rows are there and the filter takes a letter.
    await page.waitForSelector("[role=row] a");
    times.push(Date.now() - begin);
    bytes = await page.evaluate(() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")].filter((entry) => !entry.name.includes("/api/")).reduce((sum, entry) => sum + entry.transferSize, 0));
    await context.close();
  }
  return { bytes, milliseconds: quantile(times, 0.5) };
}

async function changeToPixel(browser, rounds) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  await page.request.post(`${address}/login`, { headers });
  await page.goto(`${address}/tasks`);
  await page.waitForSelector("[role=row] a");
  const times = [];
  for (let round = 0; round < rounds; round++) {
    const name = `pixel-${Date.now()}-${round}`;
    const seen = page.evaluate(
      (wanted) =>
        new Promise((found) => {
          const look = () => {
            if (document.body.textContent.includes(wanted)) requestAnimationFrame(() => found(Date.now()));
            else requestAnimationFrame(look);
          };
          look();
        }),
      name,
    );
    const begin = Date.now();
    await api("POST", "/namespaces/default/tasks", { name, description: "measured", agentRef: { name: "idle" } });
    times.push((await seen) - begin);
  }
  const filtering = await page.evaluate(async () => {
    const field = document.querySelector("[data-filter]");
    const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
    const times = [];
    for (const text of ["t", "ta", "tas", "task-9", "task-99", "", "x", "task-5"]) {
      const begin = performance.now();
      set.call(field, text);
      field.dispatchEvent(new Event("input", { bubbles: true }));
      await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
      times.push(performance.now() - begin);
    }
    return Math.max(...times);
  });
  await context.close();
  return { p50: quantile(times, 0.5), p95: quantile(times, 0.95), filtering };
}

async function lists(rounds) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const once = (path) =>
    new Promise((done, failed) => {
      const begin = process.hrtime.bigint();
      request(`${address}${path}`, { agent, headers }, (response) => {
        response.on("data", () => undefined);
        response.on("end", () => (response.statusCode === 200 ? done(Number(process.hrtime.bigint() - begin) / 1e6) : failed(new Error(`${path}: ${response.statusCode}`))));
      })
        .on("error", failed)
        .end();
    });
  const times = [];
  for (let round = 0; round < rounds; round++) {
    times.push(await once("/api/v1/tasks"));
  }
  agent.destroy();
  return { p50: quantile(times, 0.5), p99: quantile(times, 0.99) };
}

/** Streams that all hear of every change. */
async function streams(count, changes) {
  const agent = new Agent({ maxSockets: Infinity });
  const heard = new Map();
  const open = [];
  for (let index = 0; index < count; index++) {
    await new Promise((ready, failed) => {
      const asked = request(`${address}/api/v1/stream?kinds=tasks&labelSelector=measured%3Dstream`, { agent, headers }, (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (chunk) => {
          text += chunk;
          for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
            const block = text.slice(0, end);
            text = text.slice(end + 2);
            if (block.includes("event: snapshot")) ready();
            const name = /"type":"ADDED"/.test(block) && /"name":"(stream-\d+)"/.exec(block)?.[1];
            if (name) heard.set(name, [...(heard.get(name) ?? []), Date.now()]);
          }
        });
      });
      asked.on("error", failed);
      asked.end();
      open.push(asked);
    });
  }
  const late = [];
  for (let change = 0; change < changes; change++) {
    const name = `stream-${change}`;
    const begin = Date.now();
    await api("POST", "/namespaces/default/tasks", { metadata: { name, labels: { measured: "stream" } }, spec: { description: "measured", agentRef: { name: "idle" } } });
    while ((heard.get(name) ?? []).length < count) {
      if (Date.now() - begin > 30_000) throw new Error(`only ${(heard.get(name) ?? []).length} of ${count} streams heard of ${name}`);
      await passed(2);
    }
    late.push(...heard.get(name).map((at) => at - begin));
  }
  for (const asked of open) asked.destroy();
  return { count, p95: quantile(late, 0.95) };
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
const everything = what === "everything";
const load = await firstLoad(browser);
const list = everything ? await lists(500) : undefined;
const pixel = await changeToPixel(browser, everything ? 100 : 10);
await browser.close();
const stream = everything ? await streams(500, 20) : undefined;
console.log(JSON.stringify({ load, list, pixel, stream }));
