// Begins: asks who is there, then opens the stream and shows the page the address names.

import { lazy, Suspense } from "react";
import { createRoot } from "react-dom/client";
import { createBrowserRouter, Link, RouterProvider } from "react-router";
import { KIND_LIST } from "./kinds";
import { CreateTask } from "./pages/CreateTask";
import { Dashboard } from "./pages/Dashboard";
import { DetailPage } from "./pages/DetailPage";
import { ListPage } from "./pages/ListPage";
import { Login } from "./pages/Login";
import { Shell } from "./parts/Shell";
import { Refused, request } from "./plane/api";
import { store } from "./plane/store";
import "./theme.css";

const Config = lazy(() => import("./pages/Config").then((module) => ({ default: module.Config })));
const Reference = lazy(() => import("./pages/Reference").then((module) => ({ default: module.Reference })));

const router = createBrowserRouter([
  {
    element: <Shell />,
    children: [
      { path: "/", element: <Dashboard /> },
      { path: "/tasks/create", element: <CreateTask /> },
      { path: "/config", element: <Suspense><Config /></Suspense> },
      { path: "/reference", element: <Suspense><Reference /></Suspense> },
      ...KIND_LIST.flatMap((kind) => [
        { path: `/${kind.route}`, element: <ListPage key={kind.route} kind={kind} /> },
        { path: `/${kind.route}/:namespace/:name`, element: <DetailPage key={kind.route} kind={kind} /> },
      ]),
      { path: "*", element: <div className="empty"><h1>There is no such page</h1><p><Link to="/">To the overview</Link></p></div> },
    ],
  },
]);

// Before anything is asked or drawn: a dark page must not begin white.
document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "system";

const root = createRoot(document.getElementById("root")!);
request("/whoami").then(
  () => {
    store.open();
    root.render(<RouterProvider router={router} />);
  },
  (error: unknown) => {
    if (error instanceof Refused && error.code === 401) root.render(<Login />);
    else root.render(<main className="main"><div className="why failed" role="alert">{String((error as Error).message)}</div></main>);
  },
);
