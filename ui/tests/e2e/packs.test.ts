// What a person does with packs, runtimes, tools and policies.

import { afterAll, expect, test } from "vitest";
import { close, done, kubectl, open, origin } from "./browser";

afterAll(close);

test("a pack's versions are kept, and what is different between two is shown", async () => {
  const page = await open("/packs/default/concierge?tab=versions");
  await page.getByText("Only one version is kept").waitFor();
  kubectl("apply", "-f", "tests/e2e/pack-1.1.0.yaml");
  await page.getByRole("cell", { name: "1.1.0" }).waitFor();
  const shown = page.getByLabel("What is different", { exact: true });
  await shown.getByText('-       "system_template": "You help guests."').waitFor();
  await shown.getByText('+       "system_template": "You help guests, briefly."').waitFor();
  await shown.getByText('+     "farewell": {').waitFor();
  expect(await shown.getByText('"parameters"').count()).toBe(0);
  // Chosen by hand, the other way round; the address keeps it.
  const [newest, oldest] = await page.getByLabel("From version").locator("option").evaluateAll((options) => options.map((option) => (option as HTMLOptionElement).value));
  await page.getByLabel("From version").selectOption(newest!);
  await page.getByText("Nothing: both are the same.").waitFor();
  await page.getByLabel("To version").selectOption(oldest!);
  await shown.getByText('-     "farewell": {').waitFor();
  await page.reload();
  await shown.getByText('-     "farewell": {').waitFor();
  await page.goto(origin + "/packs/default/concierge");
  await page.getByText("farewell").first().waitFor();
  await page.getByRole("link", { name: "concierge", exact: true }).last().click();
  await page.getByRole("tab", { name: "Overview" }).waitFor();
  await page.locator(".facts").getByText("1.1.0").waitFor();
  await done(page);
});

test("tools are shown with what they take, and why one cannot be had", async () => {
  const page = await open("/tools/default/hotel");
  const tool = (name: string) => page.locator(".tools-list > li").filter({ has: page.getByText(name, { exact: true }) });
  await tool("repeat").getByText("Available").waitFor();
  await tool("repeat").getByText("string, required").waitFor();
  await tool("repeat").getByRole("cell", { name: "How often; once unless told" }).waitFor();
  await tool("repeat").getByText("Schema of repeat").click();
  await tool("repeat").getByLabel("Schema of repeat").getByText('"required": [').waitFor();
  await tool("book_taxi").getByText("NoEndpoint").waitFor();
  await page.locator(".head").getByText("Degraded").waitFor();
  // What is not well says why on the overview.
  await page.goto(origin + "/");
  await page.getByRole("listitem").filter({ hasText: "hotel" }).getByText(/book_taxi: /).waitFor();
  await done(page);
});

test("a policy says which tools it takes from whom, live", async () => {
  const page = await open("/policies/default/no-money");
  await page.getByText("denies refund of every registry").first().waitFor();
  const row = page.getByRole("row", { name: /concierge/ });
  await row.getByText("✗ refund").waitFor();
  await row.getByText("repeat, book_taxi").waitFor();
  kubectl("patch", "agentpolicy", "no-money", "--type=merge", "-p", '{"spec":{"toolBlocklist":["refund","repeat"]}}');
  await row.getByText("✗ repeat, refund").waitFor();
  kubectl("patch", "agentpolicy", "no-money", "--type=merge", "-p", '{"spec":{"toolBlocklist":["refund"]}}');
  await row.getByText("repeat, book_taxi").waitFor();
  await done(page);
});

test("a conversation with a runtime: it answers, remembers, calls a tool, and is refused one", async () => {
  const page = await open("/runtimes/default/concierge?tab=chat");
  const message = page.getByRole("textbox", { name: "Message" });
  const conversation = page.getByRole("log");
  const say = async (text: string) => {
    await message.fill(text);
    await message.press("Enter");
  };
  await say("good evening");
  await conversation.getByText(/\[You help guests.*\] You said: good evening/).waitFor();
  await conversation.getByText(/version 1\.\d\.0 · \d+ tokens in/).waitFor();
  const session = await page.getByText(/^session /).textContent();
  await say('call repeat {"message":"a warm welcome"}');
  await conversation.getByText("called repeat").click();
  await conversation.getByText(/The tool answered: .*a warm welcome/).waitFor();
  // The same conversation, and what the policy denies is not called.
  expect(await page.getByText(/^session /).textContent()).toBe(session);
  await say('call refund {"amount":100}');
  await conversation.locator(".call").last().getByText("✗").waitFor();
  await page.getByRole("button", { name: "New conversation" }).click();
  await conversation.getByText("Say something to").waitFor();
  // Who may see runtimes but not reach them is told so.
  kubectl("create", "role", "onlooker", "--verb=get,list,watch", "--resource=agentruntimes.omnia.altairalabs.ai");
  kubectl("create", "serviceaccount", "onlooker");
  kubectl("create", "rolebinding", "onlooker", "--role=onlooker", "--serviceaccount=default:onlooker");
  const other = await open("/runtimes/default/concierge?tab=chat", { token: kubectl("create", "token", "onlooker") });
  await other.getByRole("textbox", { name: "Message" }).fill("let me in");
  await other.getByRole("button", { name: "Send" }).click();
  await other.getByRole("alert").getByText(/may not create pods\/portforward/).waitFor();
  await done(other, [/403/]);
  // One that does not run says so, and nothing is lost.
  await page.goto(origin + "/runtimes/default/night-porter?tab=chat");
  await say("anybody there?");
  await page.getByRole("alert").getByText(/night-porter/).waitFor();
  await done(page, [/404|409/]);
});

test("a runtime shows what it is made of, and one that cannot start says why and goes on by itself", async () => {
  const page = await open("/runtimes/default/concierge");
  const tree = page.locator(".tree").first();
  await tree.getByText("Deployment").waitFor();
  await tree.getByText("facade", { exact: true }).waitFor();
  await tree.getByText("Service").waitFor();
  await page.getByText(/refund \(denied by AgentPolicy no-money\)/).waitFor();
  await page.goto(origin + "/runtimes");
  const row = page.getByRole("row", { name: /night-porter/ });
  await row.getByText("Failed").waitFor();
  await row.getByText(/not-written-yet/).first().waitFor();
  await done(page);
});
