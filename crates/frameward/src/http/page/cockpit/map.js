// The map: plants in two columns, and between them what connects them. The same plants always stand in the same places.
const map = (() => {
  const MOST = 50;              // boxes; more plants are put together by their names
  const HUBS = 12;              // connections of several plants that have a place in the middle
  const TALL = 30, GAP = 8;
  const worstOf = (levels) => levels.reduce((worst, one) => (RANK[one] > RANK[worst] ? one : worst), "good");
  const short = (text, width) => {
    const most = Math.max(3, Math.floor(width / 7.4));
    return text.length > most ? `${text.slice(0, most - 1)}\u2026` : text;
  };
  // Boxes of plants, or of plants that follow each other by name.
  const boxes = () => {
    const plants = [...fleet.plants].sort((a, b) => inOrder(a.name, b.name));
    const each = Math.ceil(plants.length / MOST);
    const all = [];
    for (let at = 0; at < plants.length; at += each) {
      const some = plants.slice(at, at + each);
      const [first, last] = [some[0], some[some.length - 1]];
      all.push({
        plants: some.map(({ name }) => name),
        name: some.length === 1 ? first.name : `${first.name} \u2013 ${last.name}`,
        count: some.reduce((sum, { gateways }) => sum + gateways, 0),
        level: worstOf(some.map(({ verdict }) => level(verdict))),
        // Of several, the worst is where to look.
        goal: [...some].sort(worstFirst)[0].name,
      });
    }
    return all;
  };
  const place = (all, width) => {
    const rows = Math.ceil(all.length / 2);
    const wide = width < 620 ? Math.min(190, width * 0.41) : 230;
    const bow = width < 620 ? 0 : Math.max(0, Math.min(110, width / 2 - wide - 120));
    all.forEach((box, at) => {
      const left = at < rows, row = left ? at : at - rows;
      const from = rows === 1 ? 0 : (row / (rows - 1)) * 2 - 1;
      const inset = bow * (1 - Math.sqrt(1 - (0.95 * from) ** 2));
      Object.assign(box, { left, wide, x: left ? inset : width - wide - inset, y: row * (TALL + GAP) });
      box.edge = [left ? box.x + wide : box.x, box.y + TALL / 2];
    });
    return rows * (TALL + GAP);
  };
  // Connections of boxes: lines between two, hubs among more. Connections inside of a box show in its colour alone.
  const ways = (all) => {
    const boxOf = new Map(all.flatMap((box) => box.plants.map((plant) => [plant, box])));
    const pairs = new Map(), hubs = [];
    let inside = 0;
    for (const one of fleet.connections) {
      const ends = [...new Set(one.gateways.map((name) => boxOf.get(fleet.byName.get(name)?.plant)).filter(Boolean))];
      if (ends.length < 2) inside += 1;
      else if (ends.length > 2) hubs.push({ ends, all: [one], level: level(one.verdict), name: one.name });
      else {
        const key = ends.map((box) => all.indexOf(box)).sort((a, b) => a - b).join(" ");
        if (!pairs.has(key)) pairs.set(key, { ends, all: [], level: "good" });
        const pair = pairs.get(key);
        pair.all.push(one);
        pair.level = worstOf([pair.level, level(one.verdict)]);
      }
    }
    hubs.sort((a, b) => RANK[b.level] - RANK[a.level] || inOrder(a.name, b.name));
    return { pairs: [...pairs.values()], hubs: hubs.slice(0, HUBS), hidden: hubs.length - HUBS, inside };
  };
  const told = ({ all }) => all.slice(0, 8).map(({ kind, name, words }) => `${kind} ${name}: ${words}`).join("\n") +
    (all.length > 8 ? `\nand ${all.length - 8} more` : "");
  const line = (from, to, bend, of) => {
    const [[ax, ay], [bx, by]] = [from, to];
    const path = `M${ax.toFixed(1)} ${ay.toFixed(1)}C${(ax + bend[0]).toFixed(1)} ${ay.toFixed(1)} ${(bx + bend[1]).toFixed(1)} ${by.toFixed(1)} ${bx.toFixed(1)} ${by.toFixed(1)}`;
    return drawing("path", { class: of.level, d: path }, drawing("title", {}, told(of)));
  };
  const box = (one) => {
    const words = `${one.name}: ${counted(one.count, "gateway")}, ${WORDS[one.level]}`;
    const link = drawing("a", { class: `box ${one.level}`, href: `#/plant/${encodeURIComponent(one.goal)}`, "aria-label": words },
      drawing("title", {}, words),
      drawing("rect", { x: one.x, y: one.y + 1, width: one.wide, height: TALL - 2, rx: 7 }),
      drawing("text", { class: "sign", x: one.x + 9, y: one.y + 20 }, SIGNS[one.level]),
      drawing("text", { x: one.x + 27, y: one.y + 20 }, short(one.name, one.wide - (one.wide < 200 ? 32 : 70))),
      // A small box has its name alone.
      ...(one.wide < 200 ? [] : [drawing("text", { class: "count", x: one.x + one.wide - 9, y: one.y + 20, "text-anchor": "end" }, whole(one.count))]));
    return link;
  };
  const lines = ({ pairs, hubs }, width, tall) => {
    const reach = width * 0.22;
    const drawn = pairs.map((pair) => {
      const [a, b] = pair.ends;
      return [pair.level, line(a.edge, b.edge, [a, b].map((end) => (end.left ? reach : -reach)), pair)];
    });
    hubs.forEach((hub, at) => {
      hub.y = (at + 1) * tall / (hubs.length + 1);
      for (const end of hub.ends) {
        const bend = end.left ? [reach / 2, -reach / 2] : [-reach / 2, reach / 2];
        drawn.push([hub.level, line(end.edge, [width / 2, hub.y], bend, hub)]);
      }
    });
    // The worst on top.
    return drawn.sort(([a], [b]) => RANK[a] - RANK[b]).map(([, path]) => path);
  };
  const hub = (one, width) => {
    // A small map has no room for names between the columns.
    const name = width < 620 ? SIGNS[one.level] : short(one.name, 150), wide = name.length * 7.4 + 16;
    return drawing("g", { class: `hub box ${one.level}` }, drawing("title", {}, told(one)),
      drawing("rect", { x: width / 2 - wide / 2, y: one.y - 11, width: wide, height: 22, rx: 11 }),
      drawing("text", { x: width / 2, y: one.y + 4.5, "text-anchor": "middle" }, name));
  };
  const troubled = () => {
    const worst = fleet.connections.filter(isTroubled).sort(worstFirst);
    const list = make("ul", "lines");
    keep(list, worst.slice(0, 100).map((one) => [`${one.kind} ${one.name}`, () => make("li", "",
      make("span", "", pill(one.verdict, WORDS[level(one.verdict)])),
      make("span", "", make("strong", "", `${one.kind} ${one.name}`), ` ${one.words} `, make("span", "soft", one.gateways.slice(0, 6).join(", ") +
        (one.gateways.length > 6 ? ` and ${one.gateways.length - 6} more` : ""))))]));
    byId("troubled").replaceChildren(make("h3", "", "Connections that need somebody"),
      worst.length ? list : make("p", "quiet", "None."),
      ...(worst.length > 100 ? [make("p", "quiet", `and ${whole(worst.length - 100)} more`)] : []));
  };
  let drawn = "", drawnOf = null;
  const draw = () => {
    if (byId("view-map").hidden) return;
    const width = Math.max(280, byId("map").clientWidth - 26);
    // An unchanged map stays, with the keyboard's focus.
    const now = JSON.stringify([width, fleet.plants]);
    if (now === drawn && drawnOf === fleet.connections) return;
    [drawn, drawnOf] = [now, fleet.connections];
    const all = boxes();
    write(byId("map-about"), all.length === 0 ? "The inventory names no plants (site in [gateway.NAME])."
      : `${counted(fleet.plants.length, "plant")}${all.length < fleet.plants.length ? `, put together by name into ${all.length} boxes: a box opens the worst of its plants` : ""}; ${counted(fleet.connections.length, "connection")}.`);
    if (all.length === 0) return byId("map").replaceChildren();
    const tall = place(all, width), between = ways(all);
    const svg = drawing("svg", { viewBox: `0 0 ${width} ${tall}`, height: tall, role: "group", "aria-label": "Plants and what connects them" },
      ...lines(between, width, tall), ...all.map(box), ...between.hubs.map((one) => hub(one, width)));
    byId("map").replaceChildren(svg);
    const notes = [];
    if (between.inside) notes.push(`${counted(between.inside, "connection")} inside of one box`);
    if (between.hidden > 0) notes.push(`${counted(between.hidden, "connection")} of several plants not drawn`);
    if (notes.length) byId("map").append(make("p", "quiet", `${notes.join("; ")}.`));
    troubled();
  };
  window.addEventListener("resize", () => requestAnimationFrame(draw));
  return { draw };
})();
