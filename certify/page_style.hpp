// What both certificates' pages look like, on light and on dark screens, and on paper.
#pragma once

namespace kvcert::certify {

inline constexpr const char* page_style = R"CSS(
:root { color-scheme: light dark; --page: #fff; --good: #1a7f37; --bad: #cf222e; --open: #9a6700; --ink: #1f2328; --soft: #59636e; --line: #d1d9e0; --bar: #0969da;
  --heat: 9, 105, 218; --hatch: #f3d5d7; --good-back: #dafbe1; --bad-back: #ffebe9; }
@media (prefers-color-scheme: dark) { :root { --page: #0d1117; --good: #3fb950; --bad: #ff7b72; --open: #d29922; --ink: #e6edf3; --soft: #9198a1; --line: #3d444d; --bar: #4493f8;
  --heat: 56, 139, 253; --hatch: #4b2327; --good-back: #12321d; --bad-back: #3c1618; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); max-width: 1080px; margin: 0 auto; padding: 24px; background: var(--page); }
h1 { font-size: 22px; margin: 0 0 2px; overflow-wrap: anywhere; } h2 { font-size: 17px; margin: 30px 0 8px; }
p { margin: 6px 0; } code, .mono { font-family: ui-monospace, monospace; font-size: 13px; overflow-wrap: anywhere; } .soft { color: var(--soft); }
.verdict { border-left: 8px solid var(--bad); background: var(--bad-back); padding: 12px 18px; margin: 16px 0; font-size: 19px; font-weight: 600; }
.verdict.good { border-color: var(--good); background: var(--good-back); }
.tiles { display: flex; flex-wrap: wrap; gap: 10px; } .tile { border: 1px solid var(--line); border-radius: 6px; padding: 8px 14px; min-width: 110px; }
.tile b { display: block; font-size: 22px; } .tile.bad b { color: var(--bad); } .tile.open b { color: var(--open); }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: 4px 8px; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--soft); font-size: 13px; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.v { white-space: nowrap; font-weight: 600; color: var(--good); } .v.wrong { color: var(--bad); } .v.open { color: var(--open); } .nw { white-space: nowrap; } .v .cases { color: var(--soft); font-weight: 400; } .v.absent { color: var(--soft); font-weight: 400; }
.v.wrong::before { content: "✗ "; } .v.open::before { content: "? "; } .v.ok::before { content: "✓ "; }
.finding { border: 1px solid var(--bad); border-radius: 6px; padding: 8px 14px; margin: 8px 0; overflow-wrap: anywhere; }
.heat td { text-align: center; font-size: 12px; border: 1px solid var(--page); padding: 5px 3px; font-variant-numeric: tabular-nums; vertical-align: middle; background: rgba(var(--heat), var(--s)); }
.heat { table-layout: fixed; min-width: 900px; } .heat th { font-size: 12px; text-align: center; vertical-align: bottom; } .heat th.g { text-align: left; white-space: nowrap; width: 170px; vertical-align: middle; }
.heat td.deep { color: #fff; } .heat td.none { background: repeating-linear-gradient(45deg, var(--page), var(--page) 4px, var(--hatch) 4px, var(--hatch) 6px); color: var(--bad); }
.scroll { overflow-x: auto; } ul { margin: 4px 0; padding-left: 22px; } svg text { font: 12px system-ui, sans-serif; fill: var(--soft); } svg rect { fill: var(--bar); } svg line { stroke: var(--soft); }
table.checks { margin: 10px 0 18px; } table.checks td:nth-child(1) { width: 90px; } table.checks td:nth-child(n+3) { width: 150px; }
td.key { width: 190px; color: var(--soft); }
@media print { body { max-width: none; padding: 0; } .finding, tr { break-inside: avoid; } }
)CSS";

}  // namespace kvcert::certify
