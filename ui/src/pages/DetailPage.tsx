// One object: header, facts, tabs, and beside them what it belongs to.

import { lazy, Suspense, useState, type ReactNode } from "react";
import { Link, useNavigate, useParams, useSearchParams } from "react-router";
import { Age, Badge, Command, Facts, Problem, Skeleton, useNow, Why } from "../parts/common";
import { EventsTab } from "../parts/EventsTab";
import { YamlTab } from "../parts/YamlTab";
import { healthOf } from "../health";
import type { Action, Kind } from "../kinds";
import { pathOf, request } from "../plane/api";
import { useItem, useLoaded } from "../plane/store";
import type { Agent, Item, Pack, Runtime } from "../plane/types";
import { OverviewTab, Rail } from "./overviews";

const Terminal = lazy(() => import("../parts/Terminal").then((module) => ({ default: module.Terminal })));
const LogView = lazy(() => import("../parts/LogView").then((module) => ({ default: module.LogView })));
const Chat = lazy(() => import("../omnia/Chat").then((module) => ({ default: module.Chat })));
const Versions = lazy(() => import("../omnia/Versions").then((module) => ({ default: module.Versions })));

export function DetailPage({ kind }: { kind: Kind<Item> }) {
  const { namespace = "", name = "" } = useParams();
  const item = useItem(kind.plural, namespace, name) as Item | undefined;
  const loaded = useLoaded(kind.plural);
  const [parameters, setParameters] = useSearchParams();
  const now = useNow();
  if (!item) return loaded ? <Gone kind={kind} name={name} /> : <Skeleton />;
  const tabs = ["Overview", ...kind.tabs, ...(kind.readOnly ? [] : ["Events", "YAML"])];
  const tab = tabs.find((one) => one.toLowerCase() === parameters.get("tab")) ?? "Overview";
  const health = healthOf(kind.plural, item);
  const choose = (one: string) => setParameters(one === "Overview" ? {} : { tab: one.toLowerCase() }, { replace: true });
  const whole = ["Logs", "Terminal", "Chat"].includes(tab);
  return (
    <>
      <div className="head">
        <Link to={`/${kind.route}`}>{kind.title}</Link>
        <span className="quiet">/</span>
        <h1 className="mono">{item.name}</h1>
        <Badge health={health} />
        <span className="quiet">{item.namespace} · <Age at={item.createdAt} /></span>
        <div className="grow" />
        <Actions kind={kind} item={item} />
      </div>
      <Why health={health} />
      <Facts facts={kind.facts(item, now)} />
      <div className="tabs" role="tablist" aria-label="Views">
        {tabs.map((one, index) => (
          <button key={one} type="button" role="tab" id={`tab-${one}`} aria-selected={one === tab} aria-controls="panel" tabIndex={one === tab ? 0 : -1} onClick={() => choose(one)}
            onKeyDown={(event) => {
              const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
              const next = tabs[(index + step + tabs.length) % tabs.length];
              if (step === 0 || !next) return;
              choose(next);
              document.getElementById(`tab-${next}`)?.focus();
            }}>{one}</button>
        ))}
      </div>
      <div className={`columns ${whole ? "whole" : ""}`}>
        <div role="tabpanel" id="panel" aria-labelledby={`tab-${tab}`}>
          {tab === "Overview" ? <OverviewTab plural={kind.plural} item={item} /> : null}
          {tab === "Logs" ? <Suspense><LogView namespace={namespace} name={name} /></Suspense> : null}
          {tab === "Terminal" ? <Suspense><Terminal agent={item as Agent} /></Suspense> : null}
          {tab === "Chat" ? <Suspense><Chat key={item.uid} runtime={item as Runtime} /></Suspense> : null}
          {tab === "Versions" ? <Suspense><Versions pack={item as Pack} /></Suspense> : null}
          {tab === "Events" ? <EventsTab plural={kind.plural} item={item} /> : null}
          {tab === "YAML" ? <YamlTab path={pathOf(kind.plural, item.namespace, item.name)} version={item.resourceVersion} command={`kubectl edit ${kind.resource} ${item.name} -n ${item.namespace}`} /> : null}
        </div>
        <aside className="rail" aria-label="Related">
          <Rail plural={kind.plural} item={item} />
          <h2>In a terminal</h2>
          {kind.commands(item).map((command) => <Command key={command} text={command} />)}
        </aside>
      </div>
    </>
  );
}

function Gone({ kind, name }: { kind: Kind<Item>; name: string }) {
  return (
    <div className="empty">
      <p>There is no {kind.one} <span className="mono">{name}</span> here, or you may not see it.</p>
      <Link className="button" to={`/${kind.route}`}>All {kind.title.toLowerCase()}</Link>
    </div>
  );
}

function Actions({ kind, item }: { kind: Kind<Item>; item: Item }) {
  const [error, setError] = useState<Error>();
  const [asking, setAsking] = useState<Action<Item> | "delete">();
  const navigate = useNavigate();
  const run = async (work: () => Promise<unknown>) => {
    setAsking(undefined);
    setError(undefined);
    try {
      await work();
    } catch (refusal) {
      setError(refusal as Error);
    }
  };
  const remove = () => run(async () => {
    await request(pathOf(kind.plural, item.namespace, item.name), { method: "DELETE" });
    void navigate(`/${kind.route}`);
  });
  return (
    <>
      <div className="tools">
        {kind.plural === "tasks" ? <Link className="button" to={`/tasks/create?from=${item.namespace}/${item.name}`}>Run again</Link> : null}
        {kind.runs ? <Link className="button" to={`/tasks/create?on=${kind.runs}:${item.namespace}/${item.name}`}>New Task</Link> : null}
        {kind.actions.map((action) => {
          const refused = action.refused?.(item);
          return <button key={action.label} type="button" className="button" disabled={refused !== undefined} title={refused} onClick={() => setAsking(action)}>{action.label}</button>;
        })}
        {kind.readOnly ? null : <button type="button" className="button danger" onClick={() => setAsking("delete")}>Delete</button>}
      </div>
      {error ? <div style={{ width: "100%" }}><Problem error={error} /></div> : null}
      {asking === "delete" ? <Deletion kind={kind} item={item} confirm={remove} close={() => setAsking(undefined)} /> : null}
      {asking && asking !== "delete" ? (
        <Dialog label={asking.label} close={() => setAsking(undefined)}>
          <p>{asking.label} {kind.one} <b className="mono">{item.name}</b>? {asking.means}</p>
          <Command text={asking.command(item)} />
          <div className="tools" style={{ marginTop: 12 }}>
            <button type="button" className="button first" onClick={() => run(() => asking.run(item))}>{asking.label}</button>
            <button type="button" className="button" onClick={() => setAsking(undefined)}>Leave it</button>
          </div>
        </Dialog>
      ) : null}
    </>
  );
}

/** Says what goes. A name has to be typed only where data is lost with it. */
function Deletion({ kind, item, confirm, close }: { kind: Kind<Item>; item: Item; confirm: () => void; close: () => void }) {
  const [typed, setTyped] = useState("");
  const lost = kind.loses?.(item);
  return (
    <Dialog label="Delete" close={close}>
      <p>This deletes {kind.deletes}.</p>
      {lost ? <label className="row"><span>{lost} Type <b className="mono">{item.name}</b> to go on.</span><input className="field mono" style={{ width: "100%" }} value={typed} onChange={(event) => setTyped(event.target.value)} autoFocus /></label> : null}
      <Command text={`kubectl delete ${kind.resource} ${item.name} -n ${item.namespace}`} />
      <div className="tools" style={{ marginTop: 12 }}>
        <button type="button" className="button danger" disabled={lost !== undefined && typed !== item.name} onClick={confirm}>Delete</button>
        <button type="button" className="button" onClick={close}>Leave it</button>
      </div>
    </Dialog>
  );
}

function Dialog({ label, close, children }: { label: string; close: () => void; children: ReactNode }) {
  return <dialog ref={(dialog) => { if (dialog && !dialog.open) dialog.showModal(); }} onClose={close} aria-label={label}>{children}</dialog>;
}
