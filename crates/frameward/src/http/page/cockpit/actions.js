// Changes: what this viewer may order, what runs, and the dialog before each. The controller judges again whether he may.
const orders = (() => {
  const WORDS_OF = { note: "Note", approve: "Take into the fleet", rotate: "New key", revoke: "Revoke" };
  const LEVEL_OF = { running: "idle", done: "good", failed: "alarm", stopped: "attention" };
  const state = { you: null, may: [], actions: [] };
  const dialog = byId("order"), input = byId("order-input"), send = byId("order-send"), trouble = byId("order-trouble");
  let wanted = null;          // the order that the dialog is about
  const can = (word) => state.may.includes(word);

  // ---- the dialog ----------------------------------------------------------------------------------------------

  // A revocation cannot be taken back: its name is typed once more.
  const ORDERS = {
    note: (name) => ({ title: `Note about ${name}`, label: "Note, for the audit log", path: `/api/gateways/${encodeURIComponent(name)}/note`, body: (text) => ({ text }) }),
    approve: (name) => ({ title: `Take ${name} into the fleet`, words: "The code stands on the box. The next apply gives it its configuration and keys.", label: "Code that the box shows",
      path: `/api/gateways/${encodeURIComponent(name)}/approve`, body: (code) => ({ code }) }),
    rotate: (name) => ({ title: `New key for ${name}`, words: "All its gateways get a new key and keep the old one until each has confirmed.",
      path: `/api/connections/${encodeURIComponent(name)}/rotate`, body: () => ({}) }),
    revoke: (name) => ({ title: `Revoke ${name}`, words: "Nobody speaks with it any more. This cannot be taken back.", label: `Type ${name}`, expected: name,
      path: `/api/gateways/${encodeURIComponent(name)}/revoke`, body: (confirm) => ({ confirm }) }),
  };
  const ready = () => {
    const text = input.value.trim();
    send.disabled = wanted.label !== undefined && (wanted.expected === undefined ? text === "" : text !== wanted.expected);
  };
  const open = (word, name) => {
    wanted = ORDERS[word](name);
    write(byId("order-title"), wanted.title);
    write(byId("order-words"), wanted.words || "");
    byId("order-label").hidden = wanted.label === undefined;
    write(byId("order-label").firstElementChild, wanted.label || "");
    write(send, WORDS_OF[word]);
    send.className = word === "revoke" ? "danger" : "";
    input.value = "";
    trouble.hidden = true;
    ready();
    dialog.showModal();
    (wanted.label === undefined ? send : input).focus();
  };
  input.addEventListener("input", ready);
  byId("order-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (send.disabled) return;
    send.disabled = true;
    const answer = await order(wanted.path, wanted.body(input.value.trim())).catch(() => null);
    const body = answer ? await answer.json().catch(() => null) : null;
    if (answer && answer.ok) {
      dialog.close();
      location.hash = "#/actions";
      return turn(true);
    }
    write(trouble, body && body.cause ? `${body.cause}; ${body.cure}` : "the controller does not answer");
    trouble.hidden = false;
    ready();
  });
  byId("order-cancel").addEventListener("click", () => dialog.close());

  // ---- what runs and what ran ----------------------------------------------------------------------------------

  const button = (word, name) => {
    const element = make("button", "order", WORDS_OF[word]);
    element.type = "button";
    element.onclick = () => open(word, name);
    element.setAttribute("aria-label", `${WORDS_OF[word]}: ${name}`);
    return element;
  };
  const stop = ({ number, action, object }) => {
    const element = make("button", "order", "Stop");
    element.type = "button";
    element.setAttribute("aria-label", `Stop ${action} ${object}`);
    element.onclick = async () => {
      element.disabled = true;
      await order(`/api/actions/${number}/stop`, {}).catch(() => null);
      turn(true);
    };
    return element;
  };
  const ended = (one) => (one.stopped_by ? `, stopped by ${one.stopped_by}` : one.ended === null ? "" : `, for ${whole(one.ended - one.time)} s`);
  // What was interrupted goes on with the same order.
  const again = (one, at, all) => (one.state !== "running" && ["rotate", "revoke"].includes(one.action) && can(one.action) &&
    all.findIndex(({ action, object }) => action === one.action && object === one.object) === at ? [" ", button(one.action, one.object)] : []);
  const entry = (one, at, all) => make("li", "", make("time", "", moment(one.time)), make("span", "",
    pill(LEVEL_OF[one.state] || "attention", one.state), " ", make("strong", "", `${one.action} ${one.object}`), make("span", "soft", ` by ${one.by || "nobody"}${ended(one)}`),
    ...(one.state === "running" && can("stop") ? [" ", stop(one)] : []), ...again(one, at, all), make("ul", "reasons", ...one.lines.map((line) => make("li", "", line)))));
  const draw = () => {
    const { you, may, actions } = state;
    byId("nav-actions").hidden = may.length === 0 && actions.length === 0;
    const running = actions.find((one) => one.state === "running");
    byId("running").hidden = !running;
    if (running) write(byId("running"), `${running.by || "somebody"}: ${running.action} ${running.object} is under way`);
    const place = byId("view-actions");
    const now = JSON.stringify(state);
    if (place.dataset.now === now) return;
    place.dataset.now = now;
    const newest = [...actions].reverse();
    place.replaceChildren(card(heading("Actions", make("span", "quiet", you ? `${you.name || "anybody"}, ${you.role}` : "")),
      newest.length ? make("ul", "lines", ...newest.map(entry)) : make("p", "quiet", "Nothing was ordered here since the controller began. The audit log has what was before.")));
  };

  let asked = -Infinity;
  let etag = null;
  // Asks each second while something runs, and each fifth one otherwise.
  const turn = async (now) => {
    const period = state.actions.some((one) => one.state === "running") ? PERIOD : 5 * PERIOD;
    if (!now && performance.now() - asked < period - 100) return;
    asked = performance.now();
    const answer = await askFor("/api/actions", etag, PATIENCE).catch(() => null);
    const body = answer && answer.ok ? await answer.json().catch(() => null) : null;
    if (body) {
      Object.assign(state, body);
      etag = answer.headers.get("ETag");
    }
    draw();
  };
  // Buttons of a gateway that this viewer may press.
  const ofGateway = (one) => {
    // A box that has a configuration was taken before.
    const words = ["note", ...(one.heard === null && one.published === null ? ["approve"] : []), "revoke"].filter(can);
    return words.length ? [make("p", "orders", ...words.map((word) => button(word, one.name)))] : [];
  };
  const ofConnection = (one) => (can("rotate") ? [" ", button("rotate", one.name)] : []);
  return { turn, draw, ofGateway, ofConnection, may: () => state.may.join(" "), isOpen: () => dialog.open };
})();
