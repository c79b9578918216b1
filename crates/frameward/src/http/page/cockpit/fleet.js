// The fleet as the controller told it last. Whoever shows it reads it here.

// States of a gateway, in the order of a chart: those of `fleet status --format prometheus`.
const STATES = ["confirmed", "waiting", "never heard", "stale", "taken back", "refused"];
// The controller judges, and the page shows it. The worst is last.
const LEVELS = { good: "good", idle: "wait", unknown: "unknown", attention: "warn", alarm: "bad" };
const RANK = { good: 0, wait: 1, unknown: 2, warn: 3, bad: 4 };
const SIGNS = { good: "\u25CF", wait: "\u25CB", unknown: "?", warn: "\u25B2", bad: "\u25A0" };
const WORDS = { good: "fine", wait: "idle", unknown: "unknown", warn: "attention", bad: "alarm" };
// A word that this page does not know is no reason to call something good.
const level = (verdict) => LEVELS[verdict] || "warn";
const isTroubled = (one) => RANK[level(one.verdict)] > RANK.wait;
const inOrder = new Intl.Collator("en", { numeric: true }).compare;
const counted = (count, word) => `${whole(count)} ${word}${count === 1 ? "" : "s"}`;
const ago = (seconds) => {
  if (seconds < 1) return "now";
  if (seconds < 120) return `${Math.floor(seconds)} s ago`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min ago`;
  return seconds < 172800 ? `${Math.floor(seconds / 3600)} h ago` : `${Math.floor(seconds / 86400)} d ago`;
};
// Seconds since 1970 as a moment in UTC, as the logs have it.
// A number that no clock shows is told as such.
const moment = (seconds) => (seconds < 8.64e12 ? new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ") : "no time");

const fleet = {
  revision: null,     // what the controller calls it
  gateways: [],       // in the order of their names
  byName: new Map(),
  connections: [],
  plants: [],
  about: {},          // the operator's key, the directory, problems
  ahead: 0,           // seconds by which the controller's clock is ahead of this one
};
const controllersNow = () => Date.now() / 1000 + fleet.ahead;

// Text of a gateway that a search looks through, made once for each.
const searched = (one) => [one.name, one.plant, one.state, one.cause, one.cure,
  ...(one.parts || []).flatMap(({ kind, name, words }) => [kind, name, words])].filter(Boolean).join("\n").toLowerCase();

// Those before, with those that came in the place of their namesakes.
const renewed = (before, some) => {
  const byName = new Map(before.map((one) => [one.name, one]));
  for (const one of some) byName.set(one.name, one);
  return [...byName.values()];
};
// Takes an answer: all of the fleet, or what changed.
const take = ({ whole: isWhole, gateways, connections, plants, ...about }) => {
  const some = gateways.map((one) => ({ ...one, searched: searched(one) }));
  fleet.gateways = isWhole ? some : renewed(fleet.gateways, some);
  fleet.gateways.sort((a, b) => inOrder(a.name, b.name));
  fleet.byName = new Map(fleet.gateways.map((one) => [one.name, one]));
  // Another list only if something is different: the map is then drawn anew.
  if (isWhole) fleet.connections = connections;
  else if (connections.length) fleet.connections = renewed(fleet.connections, connections);
  fleet.plants = plants;
  fleet.about = about;
  fleet.revision = about.revision;
};

// Asks the controller, whose clock counts. A token that it wants stays in this tab.
const TOKEN = "frameward token";
const askFor = async (path, etag, patience) => {
  const token = sessionStorage.getItem(TOKEN);
  const headers = { ...(etag ? { "If-None-Match": etag } : {}), ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  const answer = await fetch(path, { cache: "no-store", headers, signal: AbortSignal.timeout(patience) });
  const time = Date.parse(answer.headers.get("Date"));
  if (!Number.isNaN(time)) fleet.ahead = (time - Date.now()) / 1000;
  return answer;
};

// Orders a change. JSON, which no form of another site sends.
const order = (path, body) => {
  const token = sessionStorage.getItem(TOKEN);
  const headers = { "Content-Type": "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  return fetch(path, { method: "POST", cache: "no-store", headers, body: JSON.stringify(body), signal: AbortSignal.timeout(PATIENCE) });
};

// Numbers of gateways in each state.
const states = (gateways) => {
  const counts = Object.fromEntries(STATES.map((state) => [state, 0]));
  for (const { state } of gateways) counts[state] = (counts[state] || 0) + 1;
  return counts;
};
// The worst first, and by name.
const worstFirst = (a, b) => RANK[level(b.verdict)] - RANK[level(a.verdict)] || inOrder(a.name, b.name);
const pill = (verdict, words) => make("span", `pill ${level(verdict)}`, words);
const stateClass = (state) => `s-${state.replaceAll(" ", "-")}`;
const gatewayPath = (name) => `#/gateway/${encodeURIComponent(name)}`;
const linkTo = (path, words) => {
  const link = make("a", "", words);
  link.href = path;
  return link;
};
const drawing = (name, attributes, ...children) => {
  const element = document.createElementNS(SVG, name);
  for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
  element.append(...children);
  return element;
};
