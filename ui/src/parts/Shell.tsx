// The frame: navigation, the state of the stream, keys that work everywhere.

import { useEffect, useRef, useState } from "react";
import { Link, NavLink, Outlet, useNavigate } from "react-router";
import { duration } from "../format";
import { KIND_LIST } from "../kinds";
import { useConnection, useList } from "../plane/store";
import { useNow } from "./common";
import { Palette } from "./Palette";

const MAC = navigator.platform.startsWith("Mac");

async function signOut() {
  await fetch("/logout", { method: "POST" });
  location.assign("/");
}

export function Shell() {
  const [palette, setPalette] = useState(false);
  const [keys, setKeys] = useState(false);
  useKeys(() => setPalette(true), () => setKeys((shown) => !shown));
  const running = useList("tasks").filter((task) => task.phase === "Running").length;
  return (
    <div className="shell">
      <a className="skip" href="#main">To the page</a>
      <header className="side">
        <Link className="brand" to="/"><img src="/orrery.svg" alt="" width="20" height="20" />Orrery</Link>
        <nav aria-label="Pages">
          <NavLink to="/" end>Overview</NavLink>
          {KIND_LIST.map((kind, index) => (
            <NavLink key={kind.plural} className={kind.block === KIND_LIST[index - 1]?.block || index === 0 ? "" : "apart"} to={`/${kind.route}`}>
              {kind.title}
              {kind.plural === "tasks" && running > 0 ? <span className="mono running" title={`${running} running`}>{running}</span> : null}
            </NavLink>
          ))}
          <NavLink className="apart" to="/config">Config</NavLink>
        </nav>
        <div className="foot">
          <button type="button" className="button find" onClick={() => setPalette(true)}>Search <kbd>{MAC ? "⌘K" : "Ctrl K"}</kbd></button>
          <Theme />
          <Link to="/reference">REST API</Link>
          <button type="button" className="link" onClick={() => void signOut()}>Sign out</button>
          <button type="button" className="link" onClick={() => setKeys(true)}><kbd>?</kbd> shows keys</button>
        </div>
      </header>
      <main className="main" id="main">
        <ConnectionBar />
        <Outlet />
      </main>
      {palette ? <Palette close={() => setPalette(false)} /> : null}
      {keys ? <Keys close={() => setKeys(false)} /> : null}
    </div>
  );
}

function ConnectionBar() {
  const connection = useConnection();
  const now = useNow();
  if (connection.state !== "cut") return null;
  return <div className="bar" role="alert">Not live: the server has not answered for {duration((now - connection.since) / 1000)}. What you see is from before; it reconnects by itself.</div>;
}

function Theme() {
  const [theme, setTheme] = useState(() => document.documentElement.dataset.theme ?? "system");
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("theme", theme);
  }, [theme]);
  return (
    <label>
      Theme{" "}
      <select className="field" value={theme} onChange={(event) => setTheme(event.target.value)}>
        <option>system</option>
        <option>light</option>
        <option>dark</option>
      </select>
    </label>
  );
}

function Keys({ close }: { close: () => void }) {
  const rows: [string, string][] = [["⌘K or Ctrl-K", "Find anything"], ["/", "Filter this list"], ["g o", "Overview"], ...KIND_LIST.map((kind): [string, string] => [`g ${kind.key}`, kind.title]), ["c", "Create a Task"], ["?", "These keys"]];
  return (
    <dialog ref={(dialog) => { if (dialog && !dialog.open) dialog.showModal(); }} onClose={close} aria-label="Keys">
      <table className="plain"><tbody>{rows.map(([key, does]) => <tr key={key}><td><kbd>{key}</kbd></td><td>{does}</td></tr>)}</tbody></table>
      <p><button type="button" className="button" onClick={close}>Close</button></p>
    </dialog>
  );
}

function useKeys(openPalette: () => void, toggleKeys: () => void) {
  const navigate = useNavigate();
  // Not in the effect: the page is drawn again, for a change that comes, between one key and the next.
  const leader = useRef(0);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        openPalette();
        return;
      }
      const target = event.target as HTMLElement;
      if (event.metaKey || event.ctrlKey || event.altKey || target.closest("input, textarea, select, dialog, [contenteditable]")) return;
      if (Date.now() - leader.current < 2000) {
        leader.current = 0;
        const kind = KIND_LIST.find((one) => one.key === event.key);
        if (event.key === "o") void navigate("/");
        else if (kind) void navigate(`/${kind.route}`);
        return;
      }
      if (event.key === "g") leader.current = Date.now();
      else if (event.key === "c") void navigate("/tasks/create");
      else if (event.key === "?") toggleKeys();
      else if (event.key === "/") {
        event.preventDefault();
        document.querySelector<HTMLInputElement>("[data-filter]")?.focus();
      }
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [navigate, openPalette, toggleKeys]);
}
