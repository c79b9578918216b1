// Views that are opened less often: one gateway, versions, the last day, the audit log.
const heading = (title, ...more) => make("div", "title", make("h2", "", title), ...more);
const card = (...children) => make("section", "card", ...children);
const cut = (list, most) => (list.length > most ? [make("p", "quiet", `and ${whole(list.length - most)} more`)] : []);

// Asks again while a view is open, and shows why there is no answer. What is the same stays, with a selection and the keyboard's focus.
const asking = (path, period, show, fail) => {
  let asked = -Infinity, of = null, last;
  return async (subject = "") => {
    if (of !== subject) [of, asked, last] = [subject, -Infinity, undefined];
    if (performance.now() - asked < period) return;
    asked = performance.now();
    const answer = await askFor(path(subject), null, 3 * PATIENCE).catch(() => null);
    const text = answer ? await answer.text().catch(() => null) : null;
    // Somebody may have gone on meanwhile.
    if (of !== subject || text === last) return;
    last = text;
    let body = null;
    try { body = JSON.parse(text); } catch { /* no answer, then */ }
    if (answer && answer.ok && body) show(body, subject);
    else fail(body, subject);
  };
};
const noAnswer = (body) => make("p", "pill bad", body && body.cause ? [body.cause, body.cure].filter(Boolean).join("; ") : "the controller does not answer");

// ---- one gateway ---------------------------------------------------------------------------------------------

const gatewayView = (() => {
  const place = byId("view-gateway");
  const own = make("div", "own");
  let shown = null;
  const concern = (one) => {
    const { verdict, concerns } = one;
    const others = (concerns || []).map(({ text }) => text).filter((text) => text !== verdict.text);
    return [`${verdict.state}: ${verdict.text}`, ...others].map((text) => make("li", "", text));
  };
  const ownTile = (kind, one) => make("div", "tile", make("strong", "", `${kind} ${one.name}`),
    make("p", `pill ${level(one.verdict.level)}`, WORDS[level(one.verdict.level)]), make("ul", "reasons", ...concern(one)));
  const ownStatus = (report) => [
    make("p", "quiet", `frameward ${report.version}, running for ${since(report.uptime_seconds)}`),
    make("div", "tiles", ...report.links.map((link) => ownTile("link", link)), ...(report.sites || []).map((site) => ownTile("site", site))),
  ];
  const ask = asking((name) => `/api/gateways/${encodeURIComponent(name)}/status`, 3000,
    (report) => own.replaceChildren(...ownStatus(report)), (body) => own.replaceChildren(noAnswer(body)));
  const partTile = (part) => make("div", "tile", make("strong", "", `${part.kind} ${part.name}`), pill(part.verdict, part.words || WORDS[level(part.verdict)]));
  const connection = (one) => make("li", "", pill(one.verdict, WORDS[level(one.verdict)]), make("span", "", make("strong", "", `${one.kind} ${one.name}`), ` ${one.words} `,
    make("span", "soft", "with "), ...one.gateways.filter((name) => name !== shown).slice(0, 12).flatMap((name, at) => [at ? ", " : "", linkTo(gatewayPath(name), name)]),
    one.gateways.length > 13 ? ` and ${one.gateways.length - 13} more` : "", ...orders.ofConnection(one)));
  const version = (number) => (number === null ? "none" : `${number}${number > 1e9 ? `, ${moment(number)} UTC` : ""}`);
  const draw = (name) => {
    const one = fleet.byName.get(name);
    const heard = one && one.heard !== null ? ago(controllersNow() - one.heard) : "never";
    const heardLine = place.querySelector(".heard-line");
    if (heardLine) write(heardLine, heard);
    const connections = fleet.connections.filter(({ gateways }) => gateways.includes(name)).sort(worstFirst);
    const now = JSON.stringify([name, { ...one, heard: one && one.heard !== null }, connections, orders.may()]);
    if (place.dataset.now === now) return;
    place.dataset.now = now;
    if (shown !== name) own.replaceChildren(make("p", "quiet", one?.page ? "asking\u2026" : "It serves no status (http in the inventory)."));
    shown = one ? name : null;
    const back = linkTo("#/", "\u2190 all gateways");
    if (!one) return place.replaceChildren(back, make("p", "empty", `The fleet has no gateway ${name}.`));
    const parts = [...(one.parts || [])].sort(worstFirst);
    const words = make("dd", "heard-line", heard);
    const about = pairs([["plant", one.plant || "\u2013"], ["state", one.state], ["version in use", version(one.in_use)], ["published", version(one.published)]]);
    about.append(make("dt", "", "heard"), words);
    const reasons = make("ul", "reasons", ...[one.cause, one.cure].filter(Boolean).map((text) => make("li", "", text)));
    place.replaceChildren(back,
      card(heading(one.name, pill(one.verdict, one.state)), reasons, about, ...orders.ofGateway(one)),
      card(make("h3", "", "Its parts, as its heartbeat says"), parts.length ? make("div", "tiles", ...parts.map(partTile)) : make("p", "quiet", "Its heartbeat tells of no parts."),
        ...(one.parts_left_out ? [make("p", "quiet", `${whole(one.parts_left_out)} more, not told`)] : [])),
      card(make("h3", "", "Its own status"), own),
      card(make("h3", "", "Its connections"), connections.length ? make("ul", "lines", ...connections.slice(0, 50).map(connection)) : make("p", "quiet", "The inventory names none."), ...cut(connections, 50)));
  };
  const turn = (name) => {
    draw(name);
    return fleet.byName.get(name)?.page ? ask(name) : null;
  };
  return { turn };
})();

// ---- versions ------------------------------------------------------------------------------------------------

const versionsView = (() => {
  const SHOWN = 20;
  const place = byId("view-versions");
  // One published version, with how many of its gateways are in each state.
  const versionCard = ([version, counts]) => {
    const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
    const bar = make("div", "bar");
    for (const [name, value] of [["role", "progressbar"], ["aria-valuemax", all], ["aria-valuenow", counts.confirmed], ["aria-label", `version ${version}`]]) bar.setAttribute(name, value);
    const present = STATES.filter((state) => counts[state] > 0);
    for (const state of present) {
      const piece = make("span", stateClass(state));
      piece.style.width = `${100 * counts[state] / all}%`;
      bar.append(piece);
    }
    const words = counts.confirmed === all ? "in use everywhere" : `in use by ${whole(counts.confirmed)} of ${whole(all)}`;
    return card(heading(`Version ${version}`, make("span", "quiet", words)),
      ...(version > 1e9 ? [make("p", "quiet", `published ${moment(version)} UTC`)] : []), bar, legend(present, counts));
  };
  const turn = () => {
    const byVersion = new Map();
    for (const one of fleet.gateways) {
      if (!byVersion.has(one.published)) byVersion.set(one.published, []);
      byVersion.get(one.published).push(one);
    }
    const none = (byVersion.get(null) || []).length;
    byVersion.delete(null);
    const newest = [...byVersion].sort(([a], [b]) => b - a);
    const shown = newest.slice(0, SHOWN).map(([version, gateways]) => [version, states(gateways)]);
    const now = JSON.stringify([shown, none]);
    if (place.dataset.now === now) return;
    place.dataset.now = now;
    place.replaceChildren(...shown.map(versionCard),
      ...(newest.length > SHOWN ? [make("p", "quiet", `and ${counted(newest.length - SHOWN, "older version")}`)] : []),
      ...(none ? [make("p", "quiet", `Nothing is published for ${counted(none, "gateway")}.`)] : []));
  };
  return { turn };
})();
const legend = (all, counts) => make("ul", "legend", ...all.map((state) =>
  make("li", "", make("span", `swatch ${stateClass(state)}`), `${state} ${whole(counts[state] || 0)}`)));

// ---- the last day --------------------------------------------------------------------------------------------

const historyView = (() => {
  const EVENTS = 200;
  const place = byId("view-history");
  // `counts` of a minute are in the order of `all`, which names them.
  const chart = (minutes, all, about) => {
    const top = Math.max(1, ...minutes.map(({ counts }) => counts.reduce((sum, count) => sum + count, 0)));
    const first = minutes[0].time, last = minutes[minutes.length - 1].time;
    const svg = drawing("svg", { class: "chart", viewBox: "0 0 1000 200", preserveAspectRatio: "none", role: "img", "aria-label": about });
    let below = minutes.map(() => 0);
    all.forEach((state, number) => {
      const above = below.map((sum, at) => sum + minutes[at].counts[number]);
      const point = (value, at) => `${(1000 * (minutes[at].time - first) / (last - first)).toFixed(1)},${(200 - 196 * value / top).toFixed(1)}`;
      const points = [...above.map(point), ...below.map(point).reverse()];
      svg.append(drawing("polygon", { class: stateClass(state), points: points.join(" ") }, drawing("title", {}, state)));
      below = above;
    });
    const now = Object.fromEntries(all.map((state, number) => [state, minutes[minutes.length - 1].counts[number]]));
    return [svg, make("div", "axis", make("span", "", `${moment(first).slice(0, 16)} UTC`), make("span", "", `up to ${whole(top)}`),
      make("span", "", moment(last).slice(0, 16))), legend(all, now)];
  };
  const change = (before, after) => (before.state !== after.state ? `${before.state} \u2192 ${after.state}`
    : `${after.state}, ${WORDS[level(before.verdict)]} \u2192 ${WORDS[level(after.verdict)]}`);
  const event = ({ time, gateway, before, after, cause }) => make("li", "", make("time", "", moment(time)),
    make("span", "", pill(after.verdict, change(before, after)), " ", linkTo(gatewayPath(gateway), gateway), cause ? make("span", "soft", ` ${cause}`) : ""));
  const charts = (states, minutes) => {
    if (minutes.length < 2) return [card(make("h3", "", "Gateways by state, last 24 hours"), make("p", "quiet", "The controller counts once a minute, and has just begun."))];
    // The states as this page orders them.
    const of = (some) => minutes.map((minute) => ({ time: minute.time, counts: some.map((state) => minute.states[states.indexOf(state)] || 0) }));
    const others = STATES.filter((state) => state !== "confirmed");
    return [card(make("h3", "", "Gateways by state, last 24 hours"), ...chart(of(STATES), STATES, "Gateways by state")),
      card(make("h3", "", "Those that are not confirmed"), ...chart(of(others), others, "Gateways that are not confirmed, by state"))];
  };
  const show = ({ states, minutes, events }) => {
    const newest = [...events].reverse();
    place.replaceChildren(...charts(states, minutes),
      card(make("h3", "", "Changes"), newest.length ? make("ul", "lines", ...newest.slice(0, EVENTS).map(event)) : make("p", "quiet", "None."), ...cut(newest, EVENTS)));
  };
  return { turn: asking(() => "/api/history", 5000, show, (body) => place.replaceChildren(noAnswer(body))) };
})();

// ---- the audit log -------------------------------------------------------------------------------------------

const auditView = (() => {
  const LINES = 300;
  const OUTCOMES = { begun: "idle", done: "good", failed: "alarm", refused: "attention" };
  const place = byId("view-audit");
  const line = (one) => {
    const versions = Object.keys(one.versions || {}).length;
    const what = [one.action, ...(one.objects || [])].join(" ");
    return make("li", "", make("time", "", one.time.replace("T", " ").replace("Z", "")), make("span", "", pill(OUTCOMES[one.outcome], one.outcome), " ", make("strong", "", what),
      make("span", "soft", ` ${one.by ? `${one.by}, by ` : ""}${one.login} on ${one.host}, line ${one.line}${one.signature ? ", signed" : ""}${versions ? `; ${counted(versions, "gateway")} published` : ""}`),
      one.reason ? `: ${one.reason}` : ""));
  };
  const show = ({ verified, signed, told, problems, entries }) => {
    const newest = [...entries].reverse();
    const problem = (words) => make("li", "", pill(entries.length ? "alarm" : "idle", entries.length ? "not so" : "none"), make("span", "", words));
    const word = verified ? (signed ? ["good", "verified"] : ["idle", "signed in part"]) : entries.length ? ["alarm", "does not verify"] : ["idle", "empty"];
    place.replaceChildren(
      card(heading("Audit log", pill(...word)),
        ...(verified ? [make("p", "quiet", "All logs chain, and have what the directory says. Lines behind the last signature are the word of whoever writes the file:")] : [make("ul", "lines", ...problems.map(problem))]),
        make("ul", "reasons", ...told.map((words) => make("li", "", words)))),
      card(make("h3", "", "Who changed what"), newest.length ? make("ul", "lines", ...newest.slice(0, LINES).map(line)) : make("p", "quiet", "Nothing."), ...cut(newest, LINES)));
  };
  return { turn: asking(() => "/api/audit", 5000, show, (body) => place.replaceChildren(noAnswer(body))) };
})();
