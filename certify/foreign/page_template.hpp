// The page's text, for Mustache: {{name}} is escaped.
#pragma once

namespace kvcert::certify {

inline constexpr const char* page_template = R"HTML(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>kvcert: {{subject}}</title>
<style>
:root { --good: #1a7f37; --bad: #cf222e; --open: #9a6700; --ink: #1f2328; --soft: #59636e; --line: #d1d9e0; --bar: #0969da; }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); max-width: 1080px; margin: 0 auto; padding: 24px; background: #fff; }
h1 { font-size: 22px; margin: 0 0 2px; } h2 { font-size: 17px; margin: 30px 0 8px; }
p { margin: 6px 0; } code, .mono { font-family: ui-monospace, monospace; font-size: 13px; overflow-wrap: anywhere; } .soft { color: var(--soft); }
.verdict { border-left: 8px solid var(--bad); background: #ffebe9; padding: 12px 18px; margin: 16px 0; font-size: 19px; font-weight: 600; }
.verdict.good { border-color: var(--good); background: #dafbe1; }
.tiles { display: flex; flex-wrap: wrap; gap: 10px; } .tile { border: 1px solid var(--line); border-radius: 6px; padding: 8px 14px; min-width: 110px; }
.tile b { display: block; font-size: 22px; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: 4px 8px; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--soft); font-size: 13px; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.v { white-space: nowrap; font-weight: 600; color: var(--good); } .v.wrong { color: var(--bad); } .v.open { color: var(--open); }
.v.wrong::before { content: "✗ "; } .v.open::before { content: "? "; } .v.ok::before { content: "✓ "; }
.finding { border: 1px solid var(--bad); border-radius: 6px; padding: 8px 14px; margin: 8px 0; }
.heat td { text-align: center; font-size: 12px; border: 1px solid #fff; padding: 5px 3px; font-variant-numeric: tabular-nums; }
.heat { table-layout: fixed; min-width: 900px; } .heat th { font-size: 12px; text-align: center; vertical-align: bottom; } .heat th.g { text-align: left; white-space: nowrap; width: 150px; }
.heat td.none { background: repeating-linear-gradient(45deg, #fff, #fff 4px, #f3d5d7 4px, #f3d5d7 6px); color: var(--bad); }
.scroll { overflow-x: auto; } ul { margin: 4px 0; padding-left: 22px; } svg text { font: 12px system-ui, sans-serif; fill: var(--soft); }
</style></head><body>
<h1>{{subject}}</h1>
<p class="soft">{{name}} {{version}}{{#option}} · option {{option}}{{/option}}{{#sha1}} · SHA-1 <span class="mono">{{sha1}}</span>{{/sha1}}</p>
<div class="verdict {{good}}">{{sentence}}</div>
<div class="tiles">{{#tiles}}<div class="tile"><b>{{number}}</b><span class="soft">{{what}}</span></div>{{/tiles}}</div>
{{#has_findings}}<h2>What is wrong</h2>{{/has_findings}}
{{#findings}}<div class="finding"><p><span class="v wrong">{{check}}</span> <span class="soft">{{id}}, {{wrong}} of {{cases}} cases</span></p>
<p>{{sentence}}</p>{{#hint}}<p><b>{{hint}}</b></p>{{/hint}}<p class="soft">Broken: {{law}}</p></div>{{/findings}}
<h2>How far the outputs are from the real value</h2>
<p class="soft">{{histogram_caption}}</p>
{{{histogram}}}
<h2>What was exercised</h2>
<p class="soft">Judged outputs by geometry and feature. Hatched: not exercised, so nothing is said about it.</p>
<div class="scroll"><table class="heat"><tr><th class="g">KV heads × head_dim</th>{{#features}}<th>{{feature}}</th>{{/features}}</tr>
{{#coverage}}<tr><th class="g">{{geometry}}</th>{{#cells}}<td class="{{none}}" style="{{style}}">{{n}}</td>{{/cells}}</tr>
{{/coverage}}</table></div>
<h2>Checks</h2>
<table><tr><th>check</th><th>verdict</th><th class="n">cases</th><th class="n">not judged</th><th>what was asked</th></tr>
{{#checks}}<tr><td>{{check}}</td><td class="v {{tone}}">{{verdict}}</td><td class="n">{{cases}}</td><td class="n">{{open}}</td><td>{{promise}}</td></tr>
{{/checks}}</table>
<h2>What this page does not say</h2>
<ul>{{#gaps}}<li>{{gap}}</li>{{/gaps}}</ul>
<h2>How it was made</h2>
<table>{{#facts}}<tr><td class="soft">{{key}}</td><td class="mono">{{value}}</td></tr>{{/facts}}</table>
</body></html>
)HTML";

}  // namespace kvcert::certify
