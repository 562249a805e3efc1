// One object: header, facts, tabs, and beside them what it belongs to.

import { lazy, Suspense, useState } from "react";
import { Link, useNavigate, useParams, useSearchParams } from "react-router";
import { Badge, Command, Facts, Problem, useNow, Why, Age } from "../parts/common";
import { EventsTab } from "../parts/EventsTab";
import { YamlTab } from "../parts/YamlTab";
import { healthOf } from "../health";
import type { Action, Kind } from "../kinds";
import { pathOf, request } from "../plane/api";
import { useItem, useLoaded } from "../plane/store";
import type { Item } from "../plane/types";
import { OverviewTab, Rail } from "./overviews";

const LogView = lazy(() => import("../parts/LogView").then((module) => ({ default: module.LogView })));

export function DetailPage({ kind }: { kind: Kind<Item> }) {
  const { namespace = "", name = "" } = useParams();
  const item = useItem(kind.plural, namespace, name) as Item | undefined;
  const loaded = useLoaded(kind.plural);
  const [parameters, setParameters] = useSearchParams();
  const now = useNow();
  if (!item) return loaded ? <Gone kind={kind} name={name} /> : null;
  const tabs = kind.plural === "tasks" ? ["Overview", "Logs", "Events", "YAML"] : ["Overview", "Events", "YAML"];
  const tab = tabs.find((one) => one.toLowerCase() === parameters.get("tab")) ?? "Overview";
  const health = healthOf(kind.plural, item);
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
        {tabs.map((one) => <button key={one} type="button" role="tab" aria-selected={one === tab} onClick={() => setParameters({ tab: one.toLowerCase() }, { replace: true })}>{one}</button>)}
      </div>
      <div className="columns">
        <div role="tabpanel" aria-label={tab}>
          {tab === "Overview" ? <OverviewTab plural={kind.plural} item={item} /> : null}
          {tab === "Logs" ? <Suspense><LogView namespace={namespace} name={name} /></Suspense> : null}
          {tab === "Events" ? <EventsTab plural={kind.plural} item={item} /> : null}
          {tab === "YAML" ? <YamlTab plural={kind.plural} resource={kind.resource} item={item} /> : null}
        </div>
        <aside className="rail" aria-label="Related">
          <Rail plural={kind.plural} item={item} />
          <h2>In a terminal</h2>
          <Command text={`kubectl describe ${kind.resource} ${item.name} -n ${item.namespace}`} />
          {kind.plural === "tasks" ? <Command text={`orrery logs ${item.name} -n ${item.namespace}`} /> : null}
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
    <div className="tools">
      {kind.actions.map((action) => {
        const refused = action.refused?.(item);
        return <button key={action.label} type="button" className="button" disabled={refused !== undefined} title={refused} onClick={() => setAsking(action)}>{action.label}</button>;
      })}
      <button type="button" className="button danger" onClick={() => setAsking("delete")}>Delete</button>
      {error ? <Problem error={error} /> : null}
      {asking ? (
        <dialog ref={(dialog) => { if (dialog && !dialog.open) dialog.showModal(); }} onClose={() => setAsking(undefined)} aria-label="Confirm">
          <p>{asking === "delete" ? <>This deletes {kind.deletes}.</> : <>{asking.label} {kind.one} <b className="mono">{item.name}</b>?</>}</p>
          <Command text={asking === "delete" ? `kubectl delete ${kind.resource} ${item.name} -n ${item.namespace}` : asking.command(item)} />
          <div className="tools" style={{ marginTop: 12 }}>
            <button type="button" className={`button ${asking === "delete" ? "danger" : "first"}`} onClick={() => (asking === "delete" ? remove() : run(() => asking.run(item)))}>{asking === "delete" ? "Delete" : asking.label}</button>
            <button type="button" className="button" onClick={() => setAsking(undefined)}>Leave it</button>
          </div>
        </dialog>
      ) : null}
    </div>
  );
}
