// The report comes from /status once a second. What the server sends is put into the page as text, never as markup.
(() => {
  // The rows of counters, by the part that counts: "link", or a part of a site or of a fieldbus.
  const TABLES = JSON.parse(document.getElementById("counters").textContent);
  const HISTORY = 60;       // seconds that a sparkline shows
  const RECENT = 10;        // seconds for which a discard counts as rising

  // ---- small words -------------------------------------------------------------------------------------------

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
  // `code` between backticks, as the meanings have it.
  const prose = (text) => {
    const parts = text.split("`");
    return parts.map((part, number) => (number % 2 ? make("code", "", part) : part));
  };
  const meaning = (rows, name) => (rows[name] ? rows[name].meaning : "");

  // ---- figures -----------------------------------------------------------------------------------------------

  // What is shown is a link or a site; a site has a LAN.
  const isSite = (one) => "lan" in one;
  // Every group of counters, with the words for where it counts and its rows.
  const groups = (one) => (isSite(one) ? siteGroups(one) : linkGroups(one));
  // Nothing reaches the SecY of a link whose fieldbus drops the rest.
  const hasSecy = (link) => !link.fieldbus || link.fieldbus.rest !== "drop";
  const linkGroups = (link) => [
    ...(hasSecy(link) ? macsecGroups(link) : macsecGroups(link).slice(0, 2)),
    ...(link.fieldbus ? cellGroups(link.fieldbus) : []),
  ];
  const cellGroups = (cell) => [
    [`fieldbus ${cell.name}`, cell.counters, TABLES.fieldbus],
    [`handshakes of ${cell.name}`, cell.hello, TABLES.fieldbus_hello],
    ...cell.relations.flatMap(({ own, sends, peer, receives, transmit, receive }) => [
      [`${sends} from ${own}`, transmit, TABLES.fieldbus_transmit],
      [`${receives} from ${peer}`, receive, TABLES.fieldbus_receive],
    ]),
  ];
  // The own SCs: that of all frames, and that of express frames if there is one.
  const transmitScs = ({ transmit, express }) => (express ? [transmit, express] : [transmit]);
  const macsecGroups = (link) => [
    [`plain port ${link.plain.interface}`, link.plain.counters],
    [`protected port ${link.protected.interface}`, link.protected.counters],
    ["SecY", link.secy.counters],
    ...(link.mka ? [["key agreement", link.mka.counters]] : []),
    ...transmitScs(link.secy).map((sc) => [`transmit SC ${sc.sci}`, sc.counters]),
    ...link.secy.receive.map((sc) => [`receive SC ${sc.sci}`, sc.counters]),
  ].map(([where, counters]) => [where, counters, TABLES.link]);
  const siteGroups = (site) => [
    [`LAN ${site.lan.interface}`, site.lan.counters, TABLES.site_lan],
    ...site.udp.map((port) => [`UDP ${port.address}`, port.counters, TABLES.site_udp]),
    ["between the ports", site.path, TABLES.site_path],
    ...(site.uplink ? [["uplink", site.uplink.counters, TABLES.site_uplink]] : []),
    ...(site.path_uplinks || []).map((uplink) => [`uplink ${uplink.name}`, uplink.counters, TABLES.site_uplink]),
    ["tunnel", site.tunnel, TABLES.site],
    ...(site.channel ? [["management channel", site.channel, TABLES.site_channel]] : []),
    ...site.peers.flatMap((peer) => [
      [`peer ${peer.name}`, peer.counters, TABLES.site_peer],
      ...(peer.session ? [[`session with ${peer.name}`, peer.session, TABLES.site_session]] : []),
    ]),
  ];
  const discards = (one) => {
    const found = [];
    for (const [where, counters, rows] of groups(one)) {
      for (const [name, value] of Object.entries(counters)) {
        if (rows[name] && rows[name].discard && value > 0) found.push({ key: `${where} ${name}`, where, name, value, rows });
      }
    }
    return found;
  };
  // The ways: what machines send to the network, and what they get from there.
  const WAYS = [
    { way: "out", title: "To the network", near: "Rx", wire: "Tx", far: "sent on" },
    { way: "in", title: "From the network", near: "Tx", wire: "Rx", far: "received on" },
  ];
  // The counters of the ports on either side.
  const SIDES = {
    near: (one) => (isSite(one) ? [one.lan.counters] : [one.plain.counters]),
    wire: (one) => (isSite(one) ? one.udp.map((port) => port.counters) : [one.protected.counters]),
  };
  const total = (ports, ...kinds) =>
    ports.reduce((sum, counters) => kinds.reduce((all, kind) => all + (counters[kind] || 0), sum), 0);
  // Per link or site: what it said before, and what it did since.
  const past = new Map();
  const remember = (report, one) => {
    const at = report.uptime_ms / 1000;
    let memory = past.get(one.name);
    if (!memory || at < memory.at) past.set(one.name, memory = { at: null, rates: { out: [], in: [] }, rose: new Map() });
    const seconds = memory.at === null ? 0 : at - memory.at;
    if (memory.at !== null && seconds <= 0) return memory;
    if (seconds > 0) {
      for (const { way, near, wire } of WAYS) {
        const per = (side, ...kinds) =>
          Math.max(0, total(SIDES[side](one), ...kinds) - total(SIDES[side](memory.one), ...kinds)) / seconds;
        memory.rates[way].push({
          at, octets: per("near", `${near}Octets`), frames: per("near", `${near}Frames`),
          wire: per("wire", `${wire}Frames`, `${wire}Packets`),
        });
        while (memory.rates[way][0].at < at - HISTORY) memory.rates[way].shift();
      }
      const before = new Map(discards(memory.one).map(({ key, value }) => [key, value]));
      for (const { key, value } of discards(one)) {
        const more = value - (before.get(key) || 0);
        if (more > 0) memory.rose.set(key, { at, rate: more / seconds });
      }
    }
    for (const [key, rise] of memory.rose) if (rise.at < at - RECENT) memory.rose.delete(key);
    memory.at = at;
    memory.one = one;
    return memory;
  };

  // ---- what it means -----------------------------------------------------------------------------------------

  // The gateway judges, and the page shows it.
  const RANK = { good: 0, wait: 1, warn: 2, bad: 3 };
  const WORDS = { good: "protecting", wait: "idle", warn: "attention", bad: "not protecting" };
  const LEVELS = { good: "good", idle: "wait", attention: "warn", alarm: "bad" };
  const judge = ({ verdict, concerns }) => {
    const others = concerns.map(({ text }) => text).filter((text) => text !== verdict.text);
    return { level: LEVELS[verdict.level] || "warn", reasons: [`${verdict.state}: ${verdict.text}`, ...others] };
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
  const drawWay = (card, { way, far: verb }, one, memory) => {
    const rates = memory.rates[way];
    const last = rates[rates.length - 1];
    const [value, unit] = last ? pace(last.octets) : ["\u2013", ""];
    write(card.querySelector(".value"), value);
    write(card.querySelector(".unit"), unit);
    const [whose, at] = isSite(one)
      ? ["LAN", `packets/s ${verb} UDP`] : ["machine", `frames/s ${verb} ${one.protected.interface}`];
    write(card.querySelector(".quiet"),
      last ? `${few(last.frames)} frames/s of the ${whose}, ${few(last.wire)} ${at}` : "measuring\u2026");
    draw(card.querySelector(".spark"), rates, memory.at);
  };
  const discardItem = ({ where, name, rows }) => {
    const item = make("li", "", make("strong", "", name), make("span", "figure"),
      make("span", "meaning", ...prose(meaning(rows, name)), make("br"), where), make("span", "pace"));
    item.dataset.counter = name;
    return item;
  };
  const drawDiscards = (list, none, one, memory) => {
    const found = discards(one);
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
  // What a station calls itself never stands without its SCI.
  const beside = (sci, name) => (name ? `${sci} "${name}"` : sci);
  // A live member's alone: one that is only heard may be a recording. An express SC has its station's name.
  const named = (sci, mka) => {
    const nameOf = (of) => mka?.members.find((member) => member.live && member.sci === of)?.name;
    const [system, port] = sci.split("/");
    return beside(sci, nameOf(sci) || (port >= 32768 ? nameOf(`${system}/${port - 32768}`) : undefined));
  };
  const drawSas = (parent, link) => {
    const entries = transmitScs(link.secy).flatMap(({ sci, sas }) =>
      sas.map((sa) => [`own ${sci} ${sa.an}`, `Own SA ${sa.an}, SCI ${sci}`, sa, false]));
    for (const sc of link.secy.receive) {
      for (const sa of sc.sas) entries.push([`${sc.sci} ${sa.an}`, `Peer's SA ${sa.an}, SCI ${named(sc.sci, link.mka)}`, sa, true]);
    }
    keep(parent, entries.map(([key, title, sa, peer]) => [key, () => make("div", "tile"), (tile) => {
      const now = JSON.stringify([sa.key, sa.next_pn, sa.lowest_pn, sa.in_use]);
      if (tile.dataset.now !== now) tile.replaceChildren(...saTile(title, sa, peer));
      tile.dataset.now = now;
    }]));
  };
  // Whole seconds, or tenths where they matter.
  const ago = (ms) => (ms < 10000 ? `${(ms / 1000).toFixed(1)} s ago` : `${since(ms / 1000)} ago`);
  const CHANGES = 6;        // that are listed
  const agreementTiles = (mka) => {
    const server = mka.is_key_server ? "this box" : mka.key_server ? named(mka.key_server, mka) : "none";
    const own = [["state", mka.secured ? "secured" : "NOT SECURED"], ["key server", server], ["priority", mka.priority]];
    own.push(...mka.caks.map(({ ckn, key }, at) =>
      [at ? "fallback CAK" : "CAK", `${key}, ckn ${ckn}${mka.secured && ckn === mka.ckn ? ", in use" : ""}`]));
    if (mka.secured) {
      const { fragment, concatenate, why_not: why } = mka.dividing;
      const on = (on) => (on ? "on" : "off");
      own.push(["fragment", `${on(fragment)}, concatenate ${on(concatenate)}${why ? `: ${why}` : ""}`]);
    }
    if (mka.next_rekey_seconds !== undefined) own.push(["next key", `in ${since(mka.next_rekey_seconds)}`]);
    const tiles = [["own", "This box", own]];
    for (const member of mka.members) {
      tiles.push([`member ${member.mi}`, `Member ${beside(member.sci, member.name)}`, [
        ...(member.name ? [["named by itself", member.name]] : []),
        ["state", member.live ? "live" : "heard only"], ["heard", ago(member.heard_ms_ago)],
        ["priority", member.priority], ["kind", member.announced ? "Frameward" : "plain MACsec station"],
        ["MI", make("code", "", member.mi)],
      ]]);
    }
    for (const sak of mka.saks) {
      const how = { integrity: "integrity only", 0: "encrypted" }[sak.confidentiality]
        || `encrypted behind ${sak.confidentiality} octets`;
      tiles.push([`sak ${sak.ki}`, `SAK, AN ${sak.an}`, [
        ["KI", make("code", "", sak.ki)], ["suite", `${sak.suite}, ${how}`],
        ["state", sak.transmits ? "protects" : "only accepted"], ["age", since(sak.seconds)],
      ]]);
    }
    return tiles;
  };
  const drawAgreement = (section, mka) => {
    section.hidden = !mka;
    if (!mka) return;
    keep(section.querySelector(".agreed"), agreementTiles(mka).map(([key, title, list]) => [
      key, () => make("div", "tile"), (tile) => tile.replaceChildren(make("strong", "", title), pairs(list)),
    ]));
    const last = mka.changes.slice(-CHANGES).reverse();
    section.querySelector(".changes").replaceChildren(...pairs(last.map(({ ms_ago: ms, text }) => [ago(ms), text])).children);
  };
  // Nothing is said of an interface that is not prepared.
  const guarded = (guard) => (guard ? [["guard", guard === "none" ? "NONE: this box's own stack can receive and send here" : guard]] : []);
  const drawPorts = (parent, link) => {
    keep(parent, [["plain", "Plain"], ["protected", "Protected"]].map(([side, word]) => [
      side, () => make("div", "tile"), (tile) => {
        const { interface: name, engine, mtu, guard, counters } = link[side];
        tile.replaceChildren(make("strong", "", `${word} port ${name}`), pairs([
          ["engine", engine], ["MTU", `${whole(mtu)} octets`], ...guarded(guard),
          ["received", `${whole(counters.RxFrames)} frames`], ["sent", `${whole(counters.TxFrames)} frames`],
        ]));
      },
    ]));
  };
  const drawAll = (parent, one) => {
    const cell = (rows, name, value) => {
      const term = make("dt", value ? "" : "zero", name);
      if (meaning(rows, name)) term.title = meaning(rows, name).replaceAll("`", "");
      const figure = make("dd", value ? "" : "zero", whole(value));
      figure.dataset.counter = name;
      return [term, figure];
    };
    keep(parent, groups(one).map(([where, counters, rows]) => [where, () => {
      const list = make("dl", "pairs");
      for (const [name, value] of Object.entries(counters)) list.append(...cell(rows, name, value));
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
  // A link or a site has the same card, but for what is particular to it.
  const cardOf = (kind, name, ...particular) => {
    const card = make("article", "link",
      make("div", "title", make("h2", "", name), make("p", "pill wait", "measuring")),
      make("p", "quiet secy"), make("ul", "reasons"),
      make("div", "ways", ...WAYS.map(wayCard)),
      make("section", "", make("h3", "", "Discards by reason"), make("p", "quiet none", "None since the start."), make("ul", "discards")),
      ...particular,
      make("section", "", make("h3", "", "Ports"), make("div", "tiles ports")),
      make("details", "", make("summary", "", "All counters"), make("div", "all")));
    card.setAttribute("aria-label", `${kind} ${name}`);
    return card;
  };
  const linkCard = (name) =>
    cardOf("link", name,
      make("section", "agreement", make("h3", "", "Key agreement"), make("div", "tiles agreed"), make("dl", "pairs changes")),
      make("section", "secys", make("h3", "", "Keys and packet numbers"), make("div", "tiles sas")),
      make("section", "fieldbus", make("h3", "", "Fieldbus"), make("p", "banner"), make("p", "quiet cell"), make("div", "tiles relations")));
  const siteCard = (name) => cardOf("site", name,
    make("section", "", make("h3", "", "Other sites"), make("div", "tiles peers")),
    make("section", "", make("h3", "", "Stations"), make("dl", "pairs stations")));
  // Draws what links and sites have in common.
  const drawCard = (card, report, one) => {
    const memory = remember(report, one);
    const { level, reasons } = judge(one);
    const pill = card.querySelector(".pill");
    pill.className = `pill ${level}`;
    write(pill, WORDS[level]);
    keep(card.querySelector(".reasons"), reasons.map((text) => [text, () => make("li", "", text)]));
    WAYS.forEach((way) => drawWay(card.querySelector(`.way.${way.way}`), way, one, memory));
    drawDiscards(card.querySelector(".discards"), card.querySelector(".none"), one, memory);
    drawAll(card.querySelector(".all"), one);
    return level;
  };
  const drawLink = (card, report, link) => {
    const level = drawCard(card, report, link);
    const { suite, validate_frames: validate, replay_protect: replay, replay_window: window } = link.secy;
    const secy = `${suite}, validation ${validate}, ${replay ? `replay window ${whole(window)}` : "no replay protection"}`;
    write(card.querySelector(".secy"), hasSecy(link) ? secy : "nothing but the fieldbus' cyclic frames passes");
    drawAgreement(card.querySelector(".agreement"), link.mka);
    card.querySelector(".secys").hidden = !hasSecy(link);
    if (hasSecy(link)) drawSas(card.querySelector(".sas"), link);
    drawCell(card.querySelector(".fieldbus"), link.fieldbus);
    drawPorts(card.querySelector(".ports"), link);
    return level;
  };

  // ---- a link's fieldbus -------------------------------------------------------------------------------------

  const RELATIONS = 50;     // that are listed
  const span = (ns) => (ns >= 1e6 ? `${+(ns / 1e6).toPrecision(3)}\u00a0ms` : `${+(ns / 1e3).toPrecision(3)}\u00a0\u00b5s`);
  // Percentiles are the bounds of buckets, or the worst if that is less.
  const times = ({ count, worst_ns: worst, buckets }, bounds) => {
    if (count === 0) return "\u2013";
    const at = (share) => {
      let seen = 0;
      const bucket = buckets.findIndex((more) => (seen += more) >= count * share);
      return span(bucket < bounds.length ? Math.min(bounds[bucket], worst) : worst);
    };
    return `p50\u00a0${at(0.5)}, p99.9\u00a0${at(0.999)}, worst\u00a0${span(worst)}`;
  };
  // How a relation is, in a word; what needs somebody has another colour.
  const howIs = ({ mode, state, silent_ns: silent, watchdog_ns: watchdog }) => {
    if (mode === "shadow") return ["bad", "shadow: frames pass IN CLEAR"];
    if (state === "no session") return ["bad", "no session: no frame passes"];
    if (silent >= watchdog) return ["warn", "silent for longer than its watchdog"];
    return state === "running" ? ["good", "protected"] : ["wait", "in session, no frame yet"];
  };
  const drawCell = (section, cell) => {
    section.hidden = !cell;
    if (!cell) return;
    const judged = cell.relations.map((relation) => [relation, ...howIs(relation)]);
    const more = judged.length - RELATIONS;
    // Of many, those are listed that need somebody.
    if (more > 0) judged.sort(([, one], [, other]) => (RANK[other] || 0) - (RANK[one] || 0));
    const clear = cell.relations.filter(({ mode }) => mode === "shadow").length;
    const banner = section.querySelector(".banner");
    banner.hidden = clear === 0;
    write(banner, `Shadow mode: the cyclic frames of ${whole(clear)} of ${whole(cell.relations.length)} relations pass in clear.`);
    write(section.querySelector(".cell"),
      `${cell.name}: ${cell.suite}, ${cell.protect}, rest ${cell.rest === "drop" ? "dropped" : "through this link"}, ` +
      `${whole(cell.relations.length)} relations${more > 0 ? `, ${whole(more)} of them only in /status` : ""}`);
    keep(section.querySelector(".relations"), judged.slice(0, RELATIONS).map(([relation, level, words]) => {
      const { own, sends, peer, receives } = relation;
      return [`${own} ${sends} ${peer} ${receives}`, () => make("div", "tile"), (tile) => {
        const key = (key) => (key ? `${key.key_id}, epoch ${whole(key.epoch)}, Seq ${whole(key.seq || 0)}` : "none");
        const alarms = relation.receive.InAlarms || 0;
        tile.replaceChildren(
          make("strong", "", `${own} ${sends}`), make("strong", "", `\u2194 ${peer} ${receives}`),
          make("p", `pill ${level}`, words),
          pairs([
            ["state", relation.state], ["cycle", span(relation.cycle_ns)],
            ["key out", key(relation.transmit_key)], ["key in", key(relation.receive_key)],
            ["inside, out", times(relation.residence_outward, cell.bounds_ns)],
            ["inside, in", times(relation.residence_inward, cell.bounds_ns)],
            ["jitter", times(relation.jitter, cell.bounds_ns)],
            ["longest gap", `${span(relation.worst_gap_ns)} of ${span(relation.watchdog_ns)}`],
            ["alarms", whole(alarms)],
          ]));
      }];
    }));
  };

  // ---- a site's card -----------------------------------------------------------------------------------------

  const STATIONS = 50;      // that are listed
  const drawPeers = (parent, site) => {
    keep(parent, site.peers.map((peer) => [peer.name, () => make("div", "tile"), (tile) => {
      const epoch = (epoch) => (epoch ? `${whole(epoch.epoch)}, for ${since(epoch.seconds)}` : "none");
      const list = [["mode", peer.mode], ["state", peer.state === "plain" ? "NOT PROTECTED" : `${peer.state} for ${since(peer.seconds)}`]];
      if (peer.reason) list.push(["because", peer.reason]);
      list.push(["address", peer.relayed ? `relayed by ${peer.via}` : peer.address || "not known yet"]);
      if (peer.round_trip_us !== undefined) list.push(["round trip", `${whole(peer.round_trip_us)} \u00b5s`]);
      (peer.paths || []).forEach((path, at) => list.push([`path ${at + 1}`, path.up
        ? `up${path.preferred ? ", preferred" : ""}, ${whole(path.round_trip_us)} \u00b5s (${path.settings})`
        : `down: ${path.reason} (${path.settings})`]));
      if (peer.key_exchange) list.push(["keys by", peer.key_exchange]);
      if (peer.path_payload !== undefined) list.push(["UDP payload", `${whole(peer.path_payload)} octets`]);
      if (peer.mode !== "plain") {
        list.push(["epoch sent", epoch(peer.transmit_epoch)], ["epoch received", epoch(peer.receive_epoch)]);
        list.push(["flows", `${whole(peer.flows_acknowledged)} out, ${whole(peer.peer_flows)} in`]);
      }
      tile.replaceChildren(make("strong", "", `Peer ${peer.name}`), pairs(list));
    }]));
  };
  const drawStations = (list, site) => {
    const shown = site.stations.slice(0, STATIONS);
    const place = ({ peer, seconds }) => `${peer ? `behind ${peer}` : "on this LAN"}, heard ${whole(seconds)} s ago`;
    const cells = shown.flatMap((station) => [make("dt", "", station.address), make("dd", "", place(station))]);
    const more = site.stations.length - shown.length;
    if (more > 0) cells.push(make("dt", "", "\u2026"), make("dd", "", `and ${whole(more)} more in /status`));
    list.replaceChildren(...cells);
  };
  const drawSitePorts = (parent, site) => {
    const port = (title, about, frames, counters) => [title, () => make("div", "tile"), (tile) => {
      tile.replaceChildren(make("strong", "", title), pairs([
        ...about, ["received", `${whole(counters[`Rx${frames}`])} ${frames.toLowerCase()}`],
        ["sent", `${whole(counters[`Tx${frames}`])} ${frames.toLowerCase()}`],
      ]));
    }];
    const { interface: name, engine, mtu, guard, counters } = site.lan;
    keep(parent, [
      port(`LAN port ${name}`, [["engine", engine], ["MTU", `${whole(mtu)} octets`], ...guarded(guard)], "Frames", counters),
      ...site.udp.map((one) => port(`UDP ${one.address}`, [["for", one.what]], "Packets", one.counters)),
    ]);
  };
  const drawSite = (card, report, site) => {
    const level = drawCard(card, report, site);
    const here = site.stations.filter(({ peer }) => peer === undefined).length;
    write(card.querySelector(".secy"),
      `tunnel to ${whole(site.peers.length)} other sites; stations: ${whole(here)} here, ${whole(site.stations.length - here)} elsewhere`);
    drawPeers(card.querySelector(".peers"), site);
    drawStations(card.querySelector(".stations"), site);
    drawSitePorts(card.querySelector(".ports"), site);
    return level;
  };

  // ---- the page ----------------------------------------------------------------------------------------------

  let heard = null;   // when the last report came
  let trouble = "";   // why none came
  const show = (report) => {
    write(byId("gateway"), report.name);
    write(byId("about"), `frameward ${report.version}, running for ${since(report.uptime_seconds)}`);
    let worst = "good";
    const shown = (one, create, draw) => [one.name, () => create(one.name), (card) => {
      const level = draw(card, report, one);
      if (RANK[level] > RANK[worst]) worst = level;
    }];
    const sites = report.sites || [];
    keep(byId("links"), [
      ...report.links.map((link) => shown(link, linkCard, drawLink)),
      ...sites.map((site) => shown(site, siteCard, drawSite)),
    ]);
    if (report.links.length + sites.length === 0) {
      byId("links").append(make("p", "empty", "The gateway has no figures of its links and sites yet."));
    }
    document.title = `${{ good: "\u25CF", wait: "\u25CB", warn: "\u25B2", bad: "\u25A0" }[worst]} ${report.name} \u2013 frameward`;
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
    trouble = "this page cannot show the report of the gateway; load it again";
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
