// A real Chromium, signed in by the link. Every page is watched for errors that nobody expected.

import { execFileSync } from "node:child_process";
import axe from "axe-core";
import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";
import { expect, inject } from "vitest";

const FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];

export const origin = new URL(inject("link")).origin;

export const kubectl = (...words: string[]) => execFileSync("kubectl", ["--kubeconfig", inject("kubeconfig"), ...words]).toString().trim();

let browser: Browser | undefined;

/** The one browser; it ends with the process of the test file. */
export async function launch(): Promise<Browser> {
  browser ??= await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
  return browser;
}

export async function close() {
  await browser?.close();
  browser = undefined;
}

/** A page of a browser that has the session of a token of the cluster's administrator. */
export async function open(path: string, options: BrowserContextOptions & { token?: string; at?: string } = {}): Promise<Page> {
  const { token = administrator(), at = origin, ...context } = options;
  const page = await blank(context);
  const login = await page.request.post(`${at}/login`, { headers: { authorization: `Bearer ${token}` } });
  expect(login.status()).toBe(204);
  await page.goto(at + path);
  return page;
}

/** A page of a browser that nobody knows. */
export async function blank(options: BrowserContextOptions = {}): Promise<Page> {
  const context = await (await launch()).newContext({ viewport: { width: 1280, height: 800 }, ...options });
  // Long, for a busy machine: what does not come fails, what is slow does not.
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const errors: string[] = [];
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(error.message));
  watched.set(page, errors);
  return page;
}

const watched = new WeakMap<Page, string[]>();

/** Ends the page; errors that were not expected are failures. */
export async function done(page: Page, expected: RegExp[] = []) {
  const errors = (watched.get(page) ?? []).filter((error) => !expected.some((pattern) => pattern.test(error)));
  await page.context().close();
  expect(errors).toEqual([]);
}

/** What axe finds that keeps people out. */
export async function barriers(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const results = await page.evaluate(() => (globalThis as unknown as { axe: typeof axe }).axe.run(document, { resultTypes: ["violations"] }));
  const grave = results.violations.filter((one) => one.impact === "serious" || one.impact === "critical");
  return grave.map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).join(" | ")}`);
}

let token: string | undefined;

function administrator(): string {
  token ??= kubectl("create", "token", "administrator", "-n", "kube-system");
  return token;
}
