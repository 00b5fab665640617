// Elements of a page that are cut off or must be scrolled sideways. A wide table may, in a box of its own.
function cutOff(view) {
  const page = view.document;
  const scrolls = (style) => ["auto", "scroll"].includes(style.overflowX);
  const hides = (style) => style.overflowX !== "visible";
  const boxOf = (element) => element.parentElement && element.parentElement.closest(".scroll, .wide");
  const cut = [...page.body.querySelectorAll("*")].filter((element) => {
    // What lies on a plot is the library's, and the link to the summary waits outside.
    if (element.closest(".u-wrap, .skip, script")) return false;
    const style = view.getComputedStyle(element), box = element.getBoundingClientRect();
    if (!box.width || style.visibility === "hidden") return false;
    const outside = !boxOf(element) && (box.left < -0.5 || box.right > view.innerWidth + 0.5);
    const wider = element.clientWidth && element.scrollWidth > element.clientWidth + 1 && hides(style);
    const isTable = scrolls(style) && element.children.length === 1 && element.firstElementChild.tagName === "TABLE";
    return outside || (wider && !isTable);
  });
  // Letters of a drawing outside of it.
  const letters = [...page.querySelectorAll("svg text")].filter((text) => {
    const drawing = text.ownerSVGElement.getBoundingClientRect(), box = text.getBoundingClientRect();
    return box.width && (box.left < drawing.left - 1 || box.right > drawing.right + 1);
  });
  return [...cut, ...letters].map((element) => `${element.tagName}.${element.getAttribute("class")}: ${element.textContent.slice(0, 40)}`);
}
