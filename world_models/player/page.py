"""The player's page."""

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>World model</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { background: #12141a; color: #e8eaf0; font: 15px/1.5 system-ui, sans-serif; margin: 1rem auto;
  max-width: 1200px; padding: 0 1rem; }
img { image-rendering: pixelated; width: 100%; display: block; }
#names, table { width: 100%; }
#names { display: flex; color: #8b92a3; }
#names span { flex: 1; }
td, th { text-align: right; padding: 0 .8rem; font-variant-numeric: tabular-nums; }
th:first-child { text-align: left; }
#state { color: #ffc154; min-height: 1.5em; }
p { color: #8b92a3; }
</style></head><body>
<table><thead><tr><th></th><th>sum</th><th>reward</th><th>step</th><th></th></tr></thead>
<tbody id="sums"></tbody></table>
<div id="state"></div>
<div id="names">COLUMNS</div>
<img id="picture" alt="the game">
<p>HELP</p>
<script>
const names = {" ": "space", "ArrowUp": "w", "ArrowLeft": "a", "ArrowDown": "s", "ArrowRight": "d",
  "Enter": "return", "Escape": "escape", "Tab": "tab", "Backspace": "backspace", "Shift": "shift"};
const held = new Set();
let sent = Promise.resolve(), after = 0;
function send(key, down) {
  // One after another, so that no key comes up before it went down.
  sent = sent.then(() => fetch("key", {method: "POST", body: JSON.stringify({key, down})}))
    .catch(() => {});
}
function name(event) {
  return names[event.key] || (event.key.length === 1 ? event.key.toLowerCase() : "");
}
addEventListener("keydown", event => {
  const key = name(event);
  if (!key || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  if (event.repeat) return;
  held.add(key);
  send(key, true);
});
addEventListener("keyup", event => { held.delete(name(event)); send(name(event), false); });
addEventListener("blur", () => { for (const key of held) send(key, false); held.clear(); });
function show(answer) {
  document.getElementById("picture").src = "data:image/png;base64," + answer.png;
  const rows = ["model", "real"].filter(side => answer[side]).map(side => {
    const one = answer[side], row = document.createElement("tr");
    for (const text of [side, one.sum, one.reward, one.step, one.over ? "over" : ""]) {
      const cell = document.createElement(text === side ? "th" : "td");
      cell.textContent = text;
      row.append(cell);
    }
    row.id = side;
    return row;
  });
  document.getElementById("sums").replaceChildren(...rows);
  document.getElementById("state").textContent =
    answer.ended ? "ended" : answer.waits ? "waits for keys" : "action " + answer.action;
}
async function run() {
  for (;;) {
    try {
      const answer = await (await fetch("shown?after=" + after)).json();
      after = answer.number;
      show(answer);
      if (answer.ended) return;
    } catch (error) {
      document.getElementById("state").textContent = "the player does not answer";
      await new Promise(done => setTimeout(done, 1000));
    }
  }
}
run();
</script></body></html>
"""


def page(columns: list[str], help_text: str) -> str:
    """The page for these columns."""
    spans = "".join(f"<span>{column}</span>" for column in columns)
    return PAGE.replace("COLUMNS", spans).replace("HELP", help_text)
