// ⌘K: every object and page, by typing part of its name.

import { useMemo, useState, type KeyboardEvent } from "react";
import { Link, useNavigate } from "react-router";
import { healthOf } from "../health";
import { KIND_LIST, linkTo } from "../kinds";
import { store } from "../plane/store";
import { Badge } from "./common";

const SHOWN = 12;

export function Palette({ close }: { close: () => void }) {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const navigate = useNavigate();
  const found = useMemo(() => find(text), [text]);
  const keys = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setChosen((index) => Math.min(index + 1, found.length - 1));
    else if (event.key === "ArrowUp") setChosen((index) => Math.max(index - 1, 0));
    else if (event.key === "Enter" && found[chosen]) {
      void navigate(found[chosen].to);
      close();
    } else return;
    event.preventDefault();
  };
  return (
    <dialog className="palette" ref={(dialog) => { if (dialog && !dialog.open) dialog.showModal(); }} onClose={close} aria-label="Find">
      <input className="field" autoFocus placeholder="Find a task, agent, pack, tool…" aria-label="Find" role="combobox" aria-expanded="true" aria-controls="found" aria-activedescendant={found.length > 0 ? `found-${chosen}` : undefined} value={text} onKeyDown={keys} onChange={(event) => { setText(event.target.value); setChosen(0); }} />
      <ul id="found" role="listbox" aria-label="Found">
        {found.map((entry, index) => (
          <li key={entry.to} id={`found-${index}`} role="option" aria-selected={index === chosen}>
            <Link to={entry.to} tabIndex={-1} onClick={close}>{entry.badge}<span className="mono grow cut">{entry.name}</span><span className="quiet">{entry.kind}</span></Link>
          </li>
        ))}
      </ul>
      {found.length === 0 ? <p className="quiet">Nothing has that name.</p> : null}
    </dialog>
  );
}

function find(text: string) {
  const wanted = text.trim().toLowerCase();
  const pages = [{ to: "/", name: "Overview", kind: "page", badge: null }, { to: "/tasks/create", name: "Create a Task", kind: "page", badge: null }, { to: "/config", name: "Config", kind: "page", badge: null }, { to: "/reference", name: "REST API", kind: "page", badge: null }, ...KIND_LIST.map((kind) => ({ to: `/${kind.route}`, name: kind.title, kind: "page", badge: null }))];
  const objects = KIND_LIST.flatMap((kind) =>
    store.list(kind.plural).map((item) => ({ to: linkTo(kind, item), name: `${item.namespace}/${item.name}`, kind: kind.one, badge: <Badge health={healthOf(kind.plural, item)} word={false} /> })),
  );
  return [...pages, ...objects].filter((entry) => entry.name.toLowerCase().includes(wanted)).slice(0, SHOWN);
}
