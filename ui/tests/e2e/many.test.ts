// Ten thousand Tasks, on a plane of their own.

import { execFileSync } from "node:child_process";
import { Agent, request } from "node:https";
import { afterAll, expect, test } from "vitest";
import { blank, close, done } from "./browser";
import { start } from "./plane";

afterAll(close);

const COUNT = 10_000;
const name = (index: number) => `task-${String(index).padStart(5, "0")}`;

interface Kubeconfig {
  clusters: { cluster: { server: string; "certificate-authority-data": string } }[];
  users: { user: { "client-certificate-data": string; "client-key-data": string } }[];
}

/** Creates Tasks by the Kubernetes API, which has no limit for its administrator. */
async function create(kubeconfig: string, first: number, count: number) {
  const config = JSON.parse(execFileSync("kubectl", ["--kubeconfig", kubeconfig, "config", "view", "--raw", "--output", "json"]).toString()) as Kubeconfig;
  const { cluster } = config.clusters[0]!;
  const { user } = config.users[0]!;
  const decoded = (data: string) => Buffer.from(data, "base64").toString();
  const agent = new Agent({ keepAlive: true, maxSockets: 8, ca: decoded(cluster["certificate-authority-data"]), cert: decoded(user["client-certificate-data"]), key: decoded(user["client-key-data"]) });
  const post = (index: number) =>
    new Promise<void>((created, failed) => {
      const task = { apiVersion: "kubeopencode.io/v1alpha1", kind: "Task", metadata: { name: name(index) }, spec: { description: "wait", templateRef: { name: "none" } } };
      const asked = request(`${cluster.server}/apis/kubeopencode.io/v1alpha1/namespaces/default/tasks`, { agent, method: "POST", headers: { "content-type": "application/json" } }, (answer) => {
        answer.resume();
        answer.on("end", () => (answer.statusCode === 201 ? created() : failed(new Error(`${name(index)}: ${answer.statusCode}`))));
      });
      asked.on("error", failed);
      asked.end(JSON.stringify(task));
    });
  let next = first;
  const work = async () => {
    while (next < first + count) await post(next++);
  };
  await Promise.all(Array.from({ length: 8 }, work));
  agent.destroy();
}

test("a list of 10,000 Tasks draws what is in sight, scrolls to its end, filters, and stays live", async () => {
  const plane = await start("--without-controllers");
  try {
    await create(plane.kubeconfig, 0, COUNT);
    const page = await blank();
    await page.goto(plane.link);
    await page.goto(new URL("/tasks", plane.link).href);
    const counted = page.locator(".head [role=status]");
    await counted.getByText(String(COUNT), { exact: true }).waitFor();
    const drawn = () => page.locator("[role=rowgroup] [role=row]").count();
    expect(await drawn()).toBeLessThan(100);
    await page.getByRole("region", { name: "All tasks" }).evaluate((list) => list.scrollTo(0, list.scrollHeight));
    await page.getByRole("link", { name: name(0) }).waitFor();
    expect(await drawn()).toBeLessThan(100);
    await page.getByLabel("Filter by name or label").fill("task-0777");
    await counted.getByText(`10 of ${COUNT}`, { exact: true }).waitFor();
    await create(plane.kubeconfig, COUNT, 1);
    await counted.getByText(`10 of ${COUNT + 1}`, { exact: true }).waitFor();
    await page.getByLabel("Filter by name or label").fill(name(COUNT));
    await page.getByRole("link", { name: name(COUNT) }).waitFor();
    await done(page);
  } finally {
    await plane.stop();
  }
}, 300_000);
