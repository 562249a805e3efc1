// The row of what `orrery deploy` has deployed. Its states are read here, and written only by `orrery deploy`.

import { Link } from "react-router";
import { apply, deploy, PROVIDER_MOCK } from "../begin";
import { age } from "../format";
import { namespaceColumn, type Kind } from "../kind";
import type { Deployment } from "../plane/types";

const mono = (text: unknown) => <span className="mono cut">{String(text ?? "–")}</span>;
const flags = (deployment: Deployment) => `--pack FILE${deployment.environment ? ` --env ${deployment.environment}` : ""}`;

export const packdeployments: Kind<Deployment> = {
  plural: "packdeployments",
  route: "deployments",
  title: "Deployments",
  one: "Deployment",
  resource: "secret",
  key: "d",
  block: "packs",
  readOnly: true,
  columns: [
    namespaceColumn,
    { title: "Pack", width: "minmax(100px, 1fr)", wide: true, cell: (deployment) => mono(deployment.pack) },
    { title: "Version", width: "80px", cell: (deployment) => mono(deployment.version) },
    { title: "Environment", width: "minmax(90px, 0.7fr)", wide: true, spare: true, cell: (deployment) => mono(deployment.environment) },
    { title: "Last plan", width: "72px", cell: (deployment, now) => mono(age(deployment.lastPlan?.at, now)) },
  ],
  facts: (deployment, now) => [
    ["Pack", <Link className="mono" to={`/packs/${deployment.namespace}/${deployment.resources.find((one) => one.type === "prompt_pack")?.name ?? deployment.pack}`}>{deployment.pack}</Link>],
    ["Version", mono(deployment.version)],
    ["Environment", mono(deployment.environment ?? "the only one")],
    ["Resources", mono(deployment.resources.length)],
    ["State", mono(`serial ${deployment.serial}`)],
    ["Last plan", mono(deployment.lastPlan ? `${age(deployment.lastPlan.at, now)} ago` : "–")],
  ],
  actions: [],
  tabs: [],
  commands: (deployment) => [`orrery deploy plan ${flags(deployment)}`, `orrery deploy refresh ${flags(deployment)}`, `orrery deploy status ${flags(deployment)}`, `kubectl get secret ${deployment.name} -n ${deployment.namespace} -o jsonpath='{.data.state}' | base64 -d`],
  deletes: "",
  empty: [
    { text: "A deployment brings a pack to a namespace and keeps in a Secret what it made. First a model that needs no key:", command: apply(PROVIDER_MOCK) },
    { text: "Then the pack. States that are kept in a file (--state FILE), or by promptarena, are not seen here.", command: deploy },
  ],
};
