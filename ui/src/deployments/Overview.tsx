// One deployment: what was made and how it is doing, and the plan that was made last, field by field.

import { Link } from "react-router";
import { OMNIA } from "../omnia/kinds";
import { Age, Badge, Command } from "../parts/common";
import { useList } from "../plane/store";
import type { Deployment } from "../plane/types";
import { liveOf } from "./live";
import { PLURALS } from "./standing";

type Plan = NonNullable<Deployment["lastPlan"]>;
type Change = Plan["changes"][number];

const SIGNS: Record<Change["action"], [string, string]> = { CREATE: ["+", "done"], UPDATE: ["~", "waiting"], DELETE: ["-", "failed"], NO_CHANGE: [" ", "quiet"], DRIFT: ["!", "degraded"] };

export function DeploymentOverview({ deployment }: { deployment: Deployment }) {
  // Drawn again when something that was deployed changes.
  Object.values(PLURALS).forEach((plural) => useList(plural!));
  return (
    <>
      <h2>What was deployed</h2>
      <table className="plain stacks">
        <thead><tr><th>State</th><th>Type</th><th>Name</th><th>Why</th></tr></thead>
        <tbody>
          {deployment.resources.map((resource) => {
            const [, health] = liveOf(deployment, resource);
            const plural = PLURALS[resource.type];
            const route = plural ? OMNIA[plural as keyof typeof OMNIA].route : undefined;
            return (
              <tr key={`${resource.type}/${resource.name}`}>
                <td><Badge health={health} /></td>
                <td className="mono">{resource.type}</td>
                <td className="mono cut">{route ? <Link to={`/${route}/${deployment.namespace}/${resource.name}`}>{resource.name}</Link> : resource.name}</td>
                <td className="long">{health.why}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {deployment.resources.length === 0 ? <p className="quiet">Nothing yet.</p> : null}
      <h2>Last plan</h2>
      {deployment.lastPlan ? <PlanView plan={deployment.lastPlan} /> : <p className="quiet">None is kept: an older version wrote this state. The next apply or refresh keeps its plan.</p>}
    </>
  );
}

function PlanView({ plan }: { plan: Plan }) {
  const told = plan.changes.filter((change) => change.action !== "NO_CHANGE");
  const drift = plan.changes.filter((change) => change.action === "DRIFT").length;
  return (
    <>
      <p>{plan.operation === "refresh" ? "A refresh looked" : "Applied"} <Age at={plan.at} /> ago, for version <span className="mono">{plan.version}</span>. {plan.summary}.</p>
      {plan.operation === "refresh" && drift > 0 ? <div className="why degraded" role="status">Others changed {drift} of its objects. The next apply puts back what it planned. <Command text="orrery deploy apply --pack FILE" /></div> : null}
      {plan.warnings?.map((warning) => <div key={warning} className="why waiting">{warning}</div>)}
      {told.length === 0 ? <p className="quiet">{plan.operation === "refresh" ? "Nobody else had changed anything." : "Nothing was to be changed."}</p> : null}
      <ul className="plan" aria-label="Changes">{told.map((change) => <ChangeView key={`${change.type}/${change.name}`} change={change} />)}</ul>
    </>
  );
}

function ChangeView({ change }: { change: Change }) {
  const [sign, colour] = SIGNS[change.action];
  return (
    <li>
      <div><span className={`mono ${colour}`}>{sign}</span> <b className="mono">{change.type} {change.name}</b> <span className="quiet">{change.detail}</span></div>
      {change.fields?.length ? (
        <table className="plain stacks">
          <tbody>
            {change.fields.map((field) => (
              <tr key={field.path}>
                <td className="mono">{field.path}</td>
                <td className="long mono">{field.before === undefined ? null : <span className="failed">− {words(field.before)}</span>}{field.before !== undefined && field.after !== undefined ? <br /> : null}{field.after === undefined ? null : <span className="done">+ {words(field.after)}</span>}</td>
                <td className="quiet">{field.manager ? `set by ${field.manager}` : ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : null}
    </li>
  );
}

const words = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value));
