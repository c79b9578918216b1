// The page: asks the controller once a second, says how the fleet is, and shows the view that the address names.
(() => {
  const CAUSES = 5;           // that stand below the headline
  const VIEWS = { "": "gateways", plant: "gateways", map: "map", gateway: "gateway", versions: "versions", history: "history", audit: "audit", actions: "actions" };
  let heard = null;           // when the last answer came
  let trouble = "";           // why none came
  let etag = null;
  let worst = "wait";         // the level of the worst gateway

  // ---- the verdict -------------------------------------------------------------------------------------------

  const areIs = (count) => (count === 1 ? "is" : "are");
  const headline = (troubled) => {
    const all = fleet.gateways.length;
    if (all === 0) return "The inventory has no gateway.";
    const fine = fleet.gateways.filter(({ verdict }) => level(verdict) === "good").length, quiet = all - fine - troubled.length;
    if (fine === all) return all === 1 ? "The only gateway is fine." : `All ${whole(all)} gateways are fine.`;
    const parts = [`${whole(fine)} of ${counted(all, "gateway")} ${areIs(fine)} fine`];
    if (quiet) parts.push(`${whole(quiet)} ${areIs(quiet)} idle or waiting`);
    if (troubled.length) {
      // A version that is confirmed says nothing of links.
      const stands = (one) => (one.state === "confirmed" && level(one.verdict) === "unknown" ? { state: "without verdicts" } : one);
      const counts = Object.entries(states(troubled.map(stands))).filter(([, count]) => count > 0).sort(([, a], [, b]) => b - a);
      const why = counts.map(([state, count]) => `${whole(count)} ${state === "confirmed" ? "with a part that is not well" : state}`);
      parts.push(`${whole(troubled.length)} need${troubled.length === 1 ? "s" : ""} somebody: ${why.join(", ")}`);
    }
    return `${parts.join("; ")}.`;
  };
  const drawVerdict = () => {
    const troubled = fleet.gateways.filter(isTroubled).sort(worstFirst);
    worst = fleet.gateways.length ? level(fleet.about.verdict) : "wait";
    byId("headline").className = `headline ${worst}`;
    write(byId("headline"), headline(troubled));
    const entries = fleet.about.problems.map((problem) => [`problem ${problem}`, () => make("li", "problem", problem)]);
    entries.push(...troubled.slice(0, CAUSES).map((one) => [`${one.name} ${table.words(one)} ${one.cure}`, () => make("li", "",
      linkTo(gatewayPath(one.name), one.name), one.plant ? ` (${one.plant})` : "", `: ${table.words(one) || one.state}`,
      one.cure ? make("span", "cure", `; ${one.cure}`) : "")]));
    if (troubled.length > CAUSES) {
      entries.push([`more ${troubled.length}`, () => {
        const link = linkTo("#/", `and ${whole(troubled.length - CAUSES)} more`);
        link.onclick = () => table.filter("troubled");
        return make("li", "", link);
      }]);
    }
    keep(byId("worst"), entries);
    const { fleet: key } = fleet.about;
    write(byId("about"), `${counted(fleet.gateways.length, "gateway")} in ${counted(fleet.plants.length, "plant")}, operator ${key.slice(0, 16)}\u2026`);
    byId("about").title = `operator ${key}`;
  };

  // ---- the view ----------------------------------------------------------------------------------------------

  const route = () => {
    const [, word = "", ...rest] = location.hash.split("/");
    let name = null;
    try { name = rest.length ? decodeURIComponent(rest.join("/")) : null; } catch { /* no name, then */ }
    return { word: word in VIEWS ? word : "", name };
  };
  let before = { word: "" };
  const show = () => {
    const { word, name } = route();
    for (const view of new Set(Object.values(VIEWS))) byId(`view-${view}`).hidden = view !== VIEWS[word];
    byId("worst").hidden = VIEWS[word] !== "gateways";
    for (const link of document.querySelectorAll("nav a")) {
      const is = VIEWS[link.hash.slice(2)] === (VIEWS[word] === "gateway" ? "gateways" : VIEWS[word]);
      if (is) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (VIEWS[word] === "gateways") table.ofPlant(word === "plant" ? name : null);
    if (VIEWS[word] === "gateways" && before.word === "gateway") table.back(before.name);
    before = { word, name };
    turnView();
  };
  const turnView = () => {
    const { word, name } = route();
    const turns = { gateways: table.draw, map: map.draw, gateway: () => gatewayView.turn(name), versions: versionsView.turn, history: historyView.turn, audit: auditView.turn, actions: orders.draw };
    Promise.resolve().then(turns[VIEWS[word]]).catch((error) => console.error(error));
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.tagName === "INPUT" || orders.isOpen()) return;
    if (event.key === "/") {
      location.hash = location.hash.startsWith("#/plant/") ? location.hash : "#/";
      show();
      byId("search").focus();
      event.preventDefault();
    } else if (event.key === "Escape" && location.hash.length > 2) location.hash = "#/";
  });
  window.addEventListener("hashchange", show);

  // ---- asking ------------------------------------------------------------------------------------------------

  const age = () => {
    const old = heard === null ? null : performance.now() - heard;
    const silent = old === null ? trouble !== "" : old > OLD;
    const away = !silent && fleet.about.directory?.away;
    const stale = silent || Boolean(away);
    document.body.classList.toggle("old", stale);
    const banner = byId("stale");
    banner.hidden = !stale;
    const live = byId("live");
    live.className = `pill ${stale ? "bad" : heard === null ? "wait" : "good"}`;
    write(live, silent ? "no answer" : away ? "no directory" : heard === null ? "connecting" : "live");
    document.title = document.hidden && stale ? "\u25CB not asked while hidden \u2013 frameward fleet" : stale ? "\u25A0 no answer \u2013 frameward fleet" : `${SIGNS[worst]} frameward fleet`;
    if (!stale) return;
    if (away) {
      const { answered } = fleet.about.directory;
      write(banner, `The directory has answered ${answered === null ? "never" : `${ago(controllersNow() - answered)} for the last time`}: ${away}`);
    } else {
      const what = old === null ? "Nothing is known yet" : `No answer since ${Math.floor(old / 1000)} seconds, and this is what was known then`;
      write(banner, `${what}: ${trouble || "the controller does not answer"}. Asking again every second.`);
    }
  };
  // A viewer without access is asked for a token.
  byId("login").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(TOKEN, byId("token").value.trim());
    byId("token").value = "";
    byId("login").hidden = true;
  });
  const refused = async (answer) => {
    if (answer.status === 401 && byId("login").hidden) {
      byId("login").hidden = false;
      byId("token").focus();
    }
    const body = await answer.json().catch(() => null);
    trouble = body && body.cause ? [body.cause, body.cure].filter(Boolean).join("; ") : `the controller answers ${answer.status}, and has no overview`;
  };
  const ask = async () => {
    trouble = "the controller does not answer";
    const path = fleet.revision === null ? "/api/overview" : `/api/overview?since=${encodeURIComponent(fleet.revision)}`;
    const answer = await askFor(path, etag, PATIENCE);
    if (answer.status !== 304) {
      if (!answer.ok) return refused(answer);
      const overview = await answer.json();
      trouble = "this page cannot show the answer of the controller; load it again";
      take(overview);
      table.renew();
      drawVerdict();
      // Only what is drawn is known: a 304 would hide the rest.
      etag = answer.headers.get("ETag");
    }
    byId("login").hidden = true;
    orders.turn(false);
    turnView();
    heard = performance.now();
    trouble = "";
  };
  const turn = async () => {
    const begin = performance.now();
    // A page that nobody sees asks nothing.
    if (!document.hidden) {
      await ask().catch((error) => trouble.startsWith("this page") && console.error(error));
      age();
    }
    setTimeout(turn, Math.max(100, PERIOD - (performance.now() - begin)));
  };
  setInterval(age, 500);
  show();
  turn();
})();
