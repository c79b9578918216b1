"use strict";
// Small words of both pages, the status page and the cockpit. What a server sends is put into a page as text, never as markup.

const PERIOD = 1000;      // ms between two questions
const PATIENCE = 3000;    // ms that an answer may take
const OLD = 3500;         // ms after which figures are shown as old
const byId = (id) => document.getElementById(id);
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
const since = (seconds) => {
  const days = Math.floor(seconds / 86400);
  const clock = [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60];
  const text = clock.map((part) => String(Math.floor(part)).padStart(2, "0")).join(":");
  return days > 0 ? `${days} d ${text}` : text;
};
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
