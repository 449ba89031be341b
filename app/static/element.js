// Makes elements. Text is only ever set as text: labels come from the stream.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

export function make(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function draw(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

/** A bar filled to a share; widths are set by script, since styles in the markup are refused. */
export function meter(share, kind = "") {
  const fill = make("span", { class: `fill ${kind}` });
  fill.style.width = `${100 * Math.min(Math.max(share, 0), 1)}%`;
  return make("span", { class: "meter", "aria-hidden": "true" }, fill);
}
