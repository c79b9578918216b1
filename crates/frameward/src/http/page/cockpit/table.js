// The table of gateways: of thousands, only the rows that are seen are elements.
const table = (() => {
  const words = (one) => {
    const part = (one.parts || []).filter(isTroubled).sort(worstFirst)[0];
    return one.cause || (part ? `${part.kind} ${part.name}: ${part.words}` : "");
  };
  const version = ({ in_use: used, published }) => {
    if (used === null) return published === null ? "\u2013" : `none \u2192 ${published}`;
    return published === null || used === published ? String(used) : `${used} \u2192 ${published}`;
  };
  const worst = (one) => -RANK[level(one.verdict)];
  // A column: its title, what it shows, and what it is sorted by, first to last.
  const COLUMNS = [
    { key: "name", title: "Gateway", show: (one) => one.name, by: (one) => one.name },
    { key: "plant", title: "Plant", show: (one) => one.plant || "\u2013", by: (one) => one.plant || "" },
    { key: "state", title: "State", by: worst },
    { key: "words", title: "What is wrong", show: words, by: (one) => words(one) || "\uffff" },
    { key: "version", title: "Version", show: version, by: (one) => one.in_use || 0 },
    { key: "heard", title: "Heard", show: (one) => (one.heard === null ? "never" : ago(controllersNow() - one.heard)), by: (one) => -(one.heard || 0) },
  ];
  const FILTERS = [
    ["all", "All", () => true],
    ["troubled", "Need somebody", isTroubled],
    ...STATES.map((state) => [state, state[0].toUpperCase() + state.slice(1), (one) => one.state === state]),
  ];
  const SPARE = 8;    // rows beyond those that are seen
  const view = { text: "", filter: "all", plant: null, sort: "state", reverse: false, shown: [], at: -1 };
  const grid = byId("grid"), rows = byId("rows"), sheet = byId("sheet");
  const pool = [];

  // A row's place on the screen is its number in the pool: rows that stay keep their element.
  const cellOf = (column) => {
    const cell = make("span", column.key);
    cell.setAttribute("role", "gridcell");
    return cell;
  };
  const newRow = () => {
    const row = make("div", "row", ...COLUMNS.map(cellOf));
    row.setAttribute("role", "row");
    const link = make("a");
    link.tabIndex = -1;
    row.children[0].append(link);
    row.children[2].append(pill("idle", ""));
    for (const at of [1, 4, 5]) row.children[at].classList.add("soft");
    sheet.append(row);
    return row;
  };
  const fill = (row, one, at) => {
    row.id = `row-${at}`;
    row.dataset.at = at;
    row.setAttribute("aria-rowindex", at + 2);
    row.setAttribute("aria-selected", String(at === view.at));
    const [name, plant, state, what, versions, heard] = row.children;
    write(name.firstChild, one.name);
    name.firstChild.href = gatewayPath(one.name);
    const mark = state.firstChild;
    mark.className = `pill ${level(one.verdict)}`;
    // A gateway that is confirmed, and has a part that is not well, says so.
    write(mark, one.state === "confirmed" && isTroubled(one) ? WORDS[level(one.verdict)] : one.state);
    [plant, what, versions, heard].forEach((cell, number) => {
      const text = COLUMNS[[1, 3, 4, 5][number]].show(one);
      write(cell, text);
      if (cell.title !== text) cell.title = text;
    });
  };
  const height = () => parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row")) *
    parseFloat(getComputedStyle(document.documentElement).fontSize);
  const draw = () => {
    if (byId("view-gateways").hidden) return;
    const tall = height();
    sheet.style.height = `${view.shown.length * tall}px`;
    const first = Math.max(0, Math.floor(rows.scrollTop / tall) - SPARE);
    const last = Math.min(view.shown.length, Math.ceil((rows.scrollTop + rows.clientHeight) / tall) + SPARE);
    // Rows that stay keep their element, so that a press and a selection survive a scroll.
    const size = Math.ceil(rows.clientHeight / tall) + 2 * SPARE + 2;
    while (pool.length < size) pool.push(newRow());
    pool.forEach((row) => { row.hidden = true; });
    for (let at = first; at < last; at += 1) {
      const row = pool[at % pool.length];
      row.hidden = false;
      fill(row, view.shown[at], at);
      row.style.transform = `translateY(${at * tall}px)`;
    }
    grid.setAttribute("aria-rowcount", view.shown.length + 1);
    if (view.at >= first && view.at < last) grid.setAttribute("aria-activedescendant", `row-${view.at}`);
    else grid.removeAttribute("aria-activedescendant");
  };
  const choose = () => {
    const chosen = view.shown[view.at]?.name;
    const { by } = COLUMNS.find(({ key }) => key === view.sort);
    const passes = FILTERS.find(([key]) => key === view.filter)[2];
    const parts = view.text.toLowerCase().split(/\s+/).filter(Boolean);
    const keyed = fleet.gateways
      .filter((one) => passes(one) && (view.plant === null || one.plant === view.plant) && parts.every((part) => one.searched.includes(part)))
      .map((one) => [by(one), one]);
    const compare = (a, b) => (typeof a === "number" ? a - b : inOrder(a, b));
    // Gateways come in the order of their names, and the sort is stable.
    keyed.sort(view.reverse ? ([a], [b]) => compare(b, a) : ([a], [b]) => compare(a, b));
    view.shown = keyed.map(([, one]) => one);
    view.at = chosen === undefined ? -1 : view.shown.findIndex(({ name }) => name === chosen);
    write(byId("count"), view.shown.length === fleet.gateways.length
      ? counted(fleet.gateways.length, "gateway") : `${whole(view.shown.length)} of ${counted(fleet.gateways.length, "gateway")}`);
    byId("plant").hidden = view.plant === null;
    write(byId("plant").firstElementChild, view.plant === null ? "" : `Plant ${view.plant} alone:`);
  };
  const drawFilters = () => {
    const counts = states(fleet.gateways);
    counts.all = fleet.gateways.length;
    counts.troubled = fleet.gateways.filter(isTroubled).length;
    keep(byId("filters"), FILTERS.filter(([key]) => counts[key] > 0 || key === view.filter || key === "all").map(([key, title]) => [
      key, () => {
        const button = make("button");
        button.type = "button";
        button.onclick = () => change({ filter: key });
        return button;
      }, (button) => {
        write(button, `${title} ${whole(counts[key])}`);
        button.setAttribute("aria-pressed", String(view.filter === key));
      },
    ]));
    for (const head of byId("columns").children) {
      if (head.dataset.key === view.sort) head.setAttribute("aria-sort", view.reverse ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
  };
  const renew = () => {
    choose();
    drawFilters();
    draw();
  };
  const change = (how) => {
    Object.assign(view, how, { at: -1 });
    rows.scrollTop = 0;
    renew();
  };
  const go = (at) => {
    if (view.shown.length === 0) return;
    view.at = Math.max(0, Math.min(view.shown.length - 1, at));
    const tall = height(), top = view.at * tall;
    if (top < rows.scrollTop) rows.scrollTop = top;
    if (top + tall > rows.scrollTop + rows.clientHeight) rows.scrollTop = top + tall - rows.clientHeight;
    draw();
  };
  const open = (at) => {
    if (view.shown[at]) location.hash = gatewayPath(view.shown[at].name);
  };
  const page = () => Math.max(1, Math.floor(rows.clientHeight / height()) - 1);
  const MOVES = {
    ArrowDown: () => view.at + 1, ArrowUp: () => view.at - 1, PageDown: () => view.at + page(), PageUp: () => view.at - page(),
    Home: () => 0, End: () => view.shown.length - 1,
  };
  grid.addEventListener("keydown", (event) => {
    if (event.target !== grid) return;
    if (MOVES[event.key]) go(MOVES[event.key]());
    else if (event.key === "Enter") open(view.at);
    else return;
    event.preventDefault();
  });
  const search = byId("search");
  search.addEventListener("input", () => change({ text: search.value }));
  search.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") {
      grid.focus();
      go(0);
    } else if (event.key === "Enter") open(0);
    else if (event.key === "Escape") {
      if (search.value === "") search.blur();
      search.value = "";
      change({ text: "" });
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  sheet.addEventListener("click", (event) => {
    const row = event.target.closest(".row");
    if (row && event.target.tagName !== "A") open(Number(row.dataset.at));
  });
  byId("columns").append(...COLUMNS.map(({ key, title }) => {
    const button = make("button", "", title);
    button.type = "button";
    button.onclick = () => change({ sort: key, reverse: view.sort === key && !view.reverse });
    const head = make("span", key, button);
    head.setAttribute("role", "columnheader");
    head.dataset.key = key;
    return head;
  }));
  grid.setAttribute("aria-colcount", COLUMNS.length);
  rows.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
  window.addEventListener("resize", () => requestAnimationFrame(draw));
  return {
    renew, draw, words,
    ofPlant: (plant) => { if (view.plant !== plant) change({ plant }); },
    filter: (filter) => change({ filter }),
    // The gateway that was opened is where the keyboard goes on.
    back: (name) => {
      view.at = view.shown.findIndex((one) => one.name === name);
      grid.focus({ preventScroll: true });
      if (view.at >= 0) go(view.at);
    },
  };
})();
