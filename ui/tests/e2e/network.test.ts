// The network between browser and server is cut for ten seconds: nothing pretends to be live, and afterwards
// everything is right, with no line of a log lost or twice.

import { connect, createServer, type Server, type Socket } from "node:net";
import { afterAll, expect, test } from "vitest";
import { close, done, kubectl, open, origin } from "./browser";

afterAll(close);

/** A way to the server that can be cut. */
class Wire {
  private sockets = new Set<Socket>();
  private whole = true;
  private server: Server;

  constructor(private port: number) {
    this.server = createServer((from) => {
      if (!this.whole) return void from.destroy();
      const to = connect(this.port, "127.0.0.1");
      for (const socket of [from, to]) {
        this.sockets.add(socket);
        socket.on("error", () => undefined);
        socket.on("close", () => {
          this.sockets.delete(socket);
          from.destroy();
          to.destroy();
        });
      }
      from.pipe(to);
      to.pipe(from);
    });
  }

  listen(): Promise<string> {
    return new Promise((ready) => this.server.listen(0, "127.0.0.1", () => ready(`http://127.0.0.1:${(this.server.address() as { port: number }).port}`)));
  }

  cut() {
    this.whole = false;
    for (const socket of this.sockets) socket.destroy();
  }

  mend() {
    this.whole = true;
  }

  end() {
    this.cut();
    this.server.close();
  }
}

test("cut for ten seconds, it reconnects and is right", async () => {
  const wire = new Wire(Number(new URL(origin).port));
  const at = await wire.listen();
  const list = await open("/tasks", { at });
  await list.getByRole("link", { name: "lint-all" }).waitFor();
  const log = await open("/tasks/default/fix-login?tab=logs", { at });
  await log.getByRole("log").getByText(/step \d+/).first().waitFor();

  wire.cut();
  const cutAt = Date.now();
  await list.getByText("Not live").waitFor();
  await log.getByText("Cut off").waitFor();
  kubectl("create", "-f", "tests/e2e/quick.yaml");
  kubectl("wait", "task/quick", "--for=jsonpath={.status.phase}=Completed", "--timeout=60s");
  kubectl("delete", "task", "rotate-keys", "-n", "team-blue");
  await new Promise((passed) => setTimeout(passed, Math.max(0, 10_000 - (Date.now() - cutAt))));
  expect(await list.getByRole("link", { name: "quick" }).count()).toBe(0);
  wire.mend();

  await list.getByText("Not live").waitFor({ state: "detached" });
  await list.getByRole("row", { name: /quick/ }).getByText("Completed").waitFor();
  await list.getByRole("link", { name: "rotate-keys" }).waitFor({ state: "detached" });

  await log.getByText("Following.").waitFor();
  const count = async () => Number(/(\d+) lines/.exec((await log.locator(".log .state").textContent()) ?? "")?.[1]);
  const before = await count();
  await expect.poll(count, { timeout: 60_000 }).toBeGreaterThan(before);
  const [download] = await Promise.all([log.waitForEvent("download"), log.getByRole("button", { name: "Download" }).click()]);
  const { readFileSync } = await import("node:fs");
  const lines = readFileSync(await download.path(), "utf8").trimEnd().split("\n");
  expect(lines[0]).toBe("reading the login page");
  expect(lines.slice(1)).toEqual(lines.slice(1).map((_, index) => `step ${index + 1}`));

  kubectl("delete", "task", "quick");
  await done(list, [/ERR_/, /Failed to load resource/]);
  await done(log, [/ERR_/, /Failed to load resource/]);
  wire.end();
});
