// What happened to an object, newest first, as the Kubernetes API recorded it.

import { useEffect, useState } from "react";
import { pathOf, request } from "../plane/api";
import type { Item, Plural } from "../plane/types";
import { Age, Problem } from "./common";

interface Happening {
  type: string;
  reason: string;
  message: string;
  count: number;
  at: string;
  object: string;
}

export function EventsTab({ plural, item }: { plural: Plural; item: Item }) {
  const [events, setEvents] = useState<Happening[]>();
  const [error, setError] = useState<Error>();
  useEffect(() => {
    request<{ events: Happening[] }>(`${pathOf(plural, item.namespace, item.name)}/events`).then((answer) => setEvents(answer.events), setError);
    // Something happened to it when it changed.
  }, [plural, item.namespace, item.name, item.resourceVersion]);
  if (error) return <Problem error={error} />;
  if (!events) return null;
  if (events.length === 0) return <p className="quiet">Nothing was recorded in the last hour.</p>;
  return (
    <table className="plain stacks">
      <thead><tr><th>Age</th><th>Object</th><th>Reason</th><th>What happened</th></tr></thead>
      <tbody>
        {events.map((event, index) => (
          <tr key={index}>
            <td><Age at={event.at} /></td>
            <td className="mono">{event.object}</td>
            <td className={event.type === "Warning" ? "degraded" : ""}>{event.reason}{event.count > 1 ? ` ×${event.count}` : ""}</td>
            <td className="long">{event.message}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
