"use strict";
// The report comes from /status once a second. What the server sends is put into the page as text, never as markup.
(() => {
  const ROWS = JSON.parse(document.getElementById("counters").textContent);
  const PERIOD = 1000;      // ms between two questions
  const PATIENCE = 3000;    // ms that an answer may take
  const OLD = 3500;         // ms after which figures are shown as old
  const HISTORY = 60;       // seconds that a sparkline shows
  const RECENT = 10;        // seconds for which a discard counts as rising
  const byId = (id) => document.getElementById(id);

  // ---- small words -------------------------------------------------------------------------------------------

  const SVG = "http://www.w3.org/2000/svg";
  const make = (name, className, ...children) => {
    const element = document.createElement(name);
    if (className) element.className = className;
    element.append(...children.filter((child) => child !== null));
    return element;
  };
  const write = (element, text) => {
    const now = String(text);
    if (element.textContent !== now) element.textContent = now;
  };
  const whole = (value) => Math.round(value).toLocaleString("en-US");
  const few = (value) => (value >= 100 || value === 0 ? whole(value) : value.toPrecision(2));
  const pace = (octets) => {
    const bits = octets * 8;
    for (const [unit, size] of [["Gbit/s", 1e9], ["Mbit/s", 1e6], ["kbit/s", 1e3]]) {
      if (bits >= size) {
        const value = bits / size;
        return [value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0), unit];
      }
    }
    return [whole(bits), "bit/s"];
  };
  const since = (seconds) => {
    const days = Math.floor(seconds / 86400);
    const clock = [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60];
    const text = clock.map((part) => String(Math.floor(part)).padStart(2, "0")).join(":");
    return days > 0 ? `${days} d ${text}` : text;
  };
  // `code` between backticks, as the meanings have it.
  const prose = (text) => {
    const parts = text.split("`");
    return parts.map((part, number) => (number % 2 ? make("code", "", part) : part));
  };
  const meaning = (name) => (ROWS[name] ? ROWS[name].meaning : "");
  const pairs = (list) => {
    const element = make("dl", "pairs");
    for (const [name, value] of list) element.append(make("dt", "", name), make("dd", "", value));
    return element;
  };
  // Keeps the elements of a list that stay, so that a selection and the keyboard's focus stay too.
  const keep = (parent, entries) => {
    const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
    entries.forEach(([key, create, update], at) => {
      let child = known.get(key);
      known.delete(key);
      if (!child) {
        child = create();
        child.dataset.key = key;
      }
      if (parent.children[at] !== child) parent.insertBefore(child, parent.children[at] || null);
      if (update) update(child);
    });
    known.forEach((child) => child.remove());
  };

  // ---- figures -----------------------------------------------------------------------------------------------

  // Every group of counters of a link, with the words for where it counts.
  const groups = (link) => [
    [`plain port ${link.plain.interface}`, link.plain.counters],
    [`protected port ${link.protected.interface}`, link.protected.counters],
    ["SecY", link.secy.counters],
    [`transmit SC ${link.secy.transmit.sci}`, link.secy.transmit.counters],
    ...link.secy.receive.map((sc) => [`receive SC ${sc.sci}`, sc.counters]),
  ];
  const discards = (link) => {
    const found = [];
    for (const [where, counters] of groups(link)) {
      for (const [name, value] of Object.entries(counters)) {
        if (ROWS[name] && ROWS[name].discard && value > 0) found.push({ key: `${where} ${name}`, where, name, value });
      }
    }
    return found;
  };
  // The ways of a link: what a machine sends to the network, and what it gets from there.
  const WAYS = [
    { way: "out", title: "To the network", wide: ["plain", "Rx"], wire: ["protected", "Tx"], far: "sent on" },
    { way: "in", title: "From the network", wide: ["plain", "Tx"], wire: ["protected", "Rx"], far: "received on" },
  ];
  // Per link: what it said before, and what it did since.
  const past = new Map();
  const remember = (report, link) => {
    const at = report.uptime_ms / 1000;
    let memory = past.get(link.name);
    if (!memory || at < memory.at) past.set(link.name, memory = { at: null, rates: { out: [], in: [] }, rose: new Map() });
    const seconds = memory.at === null ? 0 : at - memory.at;
    if (memory.at !== null && seconds <= 0) return memory;
    if (seconds > 0) {
      for (const { way, wide: [side, sense], wire: [far, other] } of WAYS) {
        const per = (port, kind) =>
          Math.max(0, link[port].counters[kind] - memory.link[port].counters[kind]) / seconds;
        memory.rates[way].push({
          at, octets: per(side, `${sense}Octets`), frames: per(side, `${sense}Frames`), wire: per(far, `${other}Frames`),
        });
        while (memory.rates[way][0].at < at - HISTORY) memory.rates[way].shift();
      }
      const before = new Map(discards(memory.link).map(({ key, value }) => [key, value]));
      for (const { key, value } of discards(link)) {
        const more = value - (before.get(key) || 0);
        if (more > 0) memory.rose.set(key, { at, rate: more / seconds });
      }
    }
    for (const [key, rise] of memory.rose) if (rise.at < at - RECENT) memory.rose.delete(key);
    memory.at = at;
    memory.link = link;
    return memory;
  };

  // ---- what it means -----------------------------------------------------------------------------------------

  const RANK = { good: 0, warn: 1, bad: 2 };
  const WORDS = { good: "protecting", warn: "attention", bad: "not protecting" };
  const judge = (link, memory) => {
    const found = link.concerns.map(({ grave, text }) => [grave ? "bad" : "warn", text]);
    if (memory.rose.size > 0) found.push(["warn", "Frames are being discarded: see below."]);
    const level = found.reduce((worst, [one]) => (RANK[one] > RANK[worst] ? one : worst), "good");
    return { level, reasons: found.map(([, text]) => text) };
  };

  // ---- a link's card -----------------------------------------------------------------------------------------

  const spark = () => {
    const element = document.createElementNS(SVG, "svg");
    element.setAttribute("class", "spark");
    element.setAttribute("viewBox", `0 0 ${HISTORY} 20`);
    element.setAttribute("preserveAspectRatio", "none");
    element.setAttribute("aria-hidden", "true");
    element.append(document.createElementNS(SVG, "polygon"), document.createElementNS(SVG, "polyline"));
    return element;
  };
  const draw = (element, rates, now) => {
    const top = Math.max(1, ...rates.map(({ octets }) => octets));
    const points = rates.map(({ at, octets }) =>
      `${(HISTORY - (now - at)).toFixed(2)},${(19 - octets / top * 17).toFixed(2)}`);
    const [area, curve] = element.children;
    curve.setAttribute("points", points.join(" "));
    const begin = rates.length ? (HISTORY - (now - rates[0].at)).toFixed(2) : HISTORY;
    area.setAttribute("points", points.length ? `${begin},20 ${points.join(" ")} ${HISTORY},20` : "");
  };
  const wayCard = ({ way, title }) => {
    const rate = make("p", "rate", make("span", "value", "\u2013"), " ", make("small", "unit"));
    const card = make("section", `way ${way}`, make("h3", "", title), rate, make("p", "quiet"), spark());
    card.dataset.way = way;
    return card;
  };
  const drawWay = (card, { way, wire: [far], far: verb }, link, memory) => {
    const rates = memory.rates[way];
    const last = rates[rates.length - 1];
    const [value, unit] = last ? pace(last.octets) : ["\u2013", ""];
    write(card.querySelector(".value"), value);
    write(card.querySelector(".unit"), unit);
    const at = `${verb} ${link[far].interface}`;
    write(card.querySelector(".quiet"),
      last ? `${few(last.frames)} frames/s of the machine, ${few(last.wire)} frames/s ${at}` : "measuring\u2026");
    draw(card.querySelector(".spark"), rates, memory.at);
  };
  const discardItem = ({ where, name }) => {
    const item = make("li", "", make("strong", "", name), make("span", "figure"),
      make("span", "meaning", ...prose(meaning(name)), make("br"), where), make("span", "pace"));
    item.dataset.counter = name;
    return item;
  };
  const drawDiscards = (list, none, link, memory) => {
    const found = discards(link);
    // The rising ones first, the larger before the smaller.
    const order = (one) => [memory.rose.has(one.key) ? 1 : 0, one.value];
    found.sort((a, b) => order(b)[0] - order(a)[0] || order(b)[1] - order(a)[1]);
    none.hidden = found.length > 0;
    keep(list, found.map((one) => [one.key, () => discardItem(one), (item) => {
      const rise = memory.rose.get(one.key);
      item.className = rise ? "rising" : "";
      write(item.querySelector(".figure"), whole(one.value));
      write(item.querySelector(".pace"), rise ? `\u25B2 rising, ${few(rise.rate)}/s` : "not rising");
    }]));
  };
  // At the mean rate since the SA began.
  const days = (seconds) => (seconds < 86400 ? "less than a day" : `${whole(Math.floor(seconds / 86400))} days`);
  const saTile = (title, sa, peer) => {
    const list = [["key", make("code", "", sa.key)]];
    if (peer) list.push(["lowest PN", sa.lowest_pn === undefined ? "\u2013" : whole(sa.lowest_pn)]);
    else list.push(["next PN", sa.next_pn === undefined ? "none left" : whole(sa.next_pn)]);
    if (sa.pns_left !== undefined) list.push(["PNs left", whole(sa.pns_left)]);
    if (sa.pns_last_seconds !== undefined) list.push(["they last", days(sa.pns_last_seconds)]);
    list.push(["state", sa.in_use ? "in use" : "not in use"]);
    return [make("strong", "", title), pairs(list)];
  };
  const drawSas = (parent, link) => {
    const { transmit, receive } = link.secy;
    const entries = transmit.sas.map((sa) => [`own ${sa.an}`, `Own SA ${sa.an}, SCI ${transmit.sci}`, sa, false]);
    for (const sc of receive) {
      for (const sa of sc.sas) entries.push([`${sc.sci} ${sa.an}`, `Peer's SA ${sa.an}, SCI ${sc.sci}`, sa, true]);
    }
    keep(parent, entries.map(([key, title, sa, peer]) => [key, () => make("div", "tile"), (tile) => {
      const now = JSON.stringify([sa.key, sa.next_pn, sa.lowest_pn, sa.in_use]);
      if (tile.dataset.now !== now) tile.replaceChildren(...saTile(title, sa, peer));
      tile.dataset.now = now;
    }]));
  };
  const drawPorts = (parent, link) => {
    keep(parent, [["plain", "Plain"], ["protected", "Protected"]].map(([side, word]) => [
      side, () => make("div", "tile"), (tile) => {
        const { interface: name, engine, mtu, counters } = link[side];
        tile.replaceChildren(make("strong", "", `${word} port ${name}`), pairs([
          ["engine", engine], ["MTU", `${whole(mtu)} octets`],
          ["received", `${whole(counters.RxFrames)} frames`], ["sent", `${whole(counters.TxFrames)} frames`],
        ]));
      },
    ]));
  };
  const drawAll = (parent, link) => {
    const cell = (name, value) => {
      const term = make("dt", value ? "" : "zero", name);
      if (meaning(name)) term.title = meaning(name).replaceAll("`", "");
      const figure = make("dd", value ? "" : "zero", whole(value));
      figure.dataset.counter = name;
      return [term, figure];
    };
    keep(parent, groups(link).map(([where, counters]) => [where, () => {
      const list = make("dl", "pairs");
      for (const [name, value] of Object.entries(counters)) list.append(...cell(name, value));
      return make("section", "", make("h3", "", where), list);
    }, (section) => {
      const figures = section.querySelectorAll("dd");
      Object.values(counters).forEach((value, at) => {
        if (!figures[at]) return;
        write(figures[at], whole(value));
        figures[at].className = figures[at].previousSibling.className = value ? "" : "zero";
      });
    }]));
  };
  const linkCard = (name) => {
    const card = make("article", "link",
      make("div", "title", make("h2", "", name), make("p", "pill wait", "measuring")),
      make("p", "quiet secy"), make("ul", "reasons"),
      make("div", "ways", ...WAYS.map(wayCard)),
      make("section", "", make("h3", "", "Discards by reason"), make("p", "quiet none", "None since the start."), make("ul", "discards")),
      make("section", "", make("h3", "", "Keys and packet numbers"), make("div", "tiles sas")),
      make("section", "", make("h3", "", "Ports"), make("div", "tiles ports")),
      make("details", "", make("summary", "", "All counters"), make("div", "all")));
    card.setAttribute("aria-label", `link ${name}`);
    return card;
  };
  const drawLink = (card, report, link) => {
    const memory = remember(report, link);
    const { level, reasons } = judge(link, memory);
    const pill = card.querySelector(".pill");
    pill.className = `pill ${level}`;
    write(pill, WORDS[level]);
    keep(card.querySelector(".reasons"), reasons.map((text) => [text, () => make("li", "", text)]));
    const { suite, validate_frames: validate, replay_protect: replay, replay_window: window } = link.secy;
    write(card.querySelector(".secy"),
      `${suite}, validation ${validate}, ${replay ? `replay window ${whole(window)}` : "no replay protection"}`);
    WAYS.forEach((way) => drawWay(card.querySelector(`.way.${way.way}`), way, link, memory));
    drawDiscards(card.querySelector(".discards"), card.querySelector(".none"), link, memory);
    drawSas(card.querySelector(".sas"), link);
    drawPorts(card.querySelector(".ports"), link);
    drawAll(card.querySelector(".all"), link);
    return level;
  };

  // ---- the page ----------------------------------------------------------------------------------------------

  let heard = null;   // when the last report came
  let trouble = "";   // why none came
  const show = (report) => {
    write(byId("gateway"), report.name);
    write(byId("about"), `frameward ${report.version}, running for ${since(report.uptime_seconds)}`);
    let worst = "good";
    keep(byId("links"), report.links.map((link) => [link.name, () => linkCard(link.name), (card) => {
      const level = drawLink(card, report, link);
      if (RANK[level] > RANK[worst]) worst = level;
    }]));
    if (report.links.length === 0) byId("links").append(make("p", "empty", "The gateway has no figures of its links yet."));
    document.title = `${{ good: "\u25CF", warn: "\u25B2", bad: "\u25A0" }[worst]} ${report.name} \u2013 frameward`;
  };
  const age = () => {
    const old = heard === null ? null : performance.now() - heard;
    const stale = old === null ? trouble !== "" : old > OLD;
    document.body.classList.toggle("old", stale);
    const banner = byId("stale");
    banner.hidden = !stale;
    const live = byId("live");
    live.className = `pill ${stale ? "bad" : heard === null ? "wait" : "good"}`;
    write(live, stale ? "no answer" : heard === null ? "connecting" : "live");
    if (!stale) return;
    const what = old === null ? "There are no figures yet" : `These figures are ${Math.floor(old / 1000)} seconds old`;
    write(banner, `${what}: ${trouble || "the gateway does not answer"}. Asking again every second.`);
    document.title = `\u25A0 no answer \u2013 frameward`;
  };
  const ask = async () => {
    trouble = "the gateway does not answer";
    const answer = await fetch("/status", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
    if (!answer.ok) {
      trouble = "the gateway answers, but has no figures";
      return;
    }
    const report = await answer.json();
    trouble = "this page cannot show what the gateway says; load it again";
    show(report);
    heard = performance.now();
    trouble = "";
  };
  const turn = async () => {
    const begin = performance.now();
    // A page that nobody sees asks nothing.
    if (!document.hidden) {
      // A gateway that is not there is told in the page; what else fails is a defect, and told to who looks for it.
      await ask().catch((error) => trouble.startsWith("this page") && console.error(error));
      age();
    }
    setTimeout(turn, Math.max(100, PERIOD - (performance.now() - begin)));
  };
  setInterval(age, 500);
  turn();
})();
