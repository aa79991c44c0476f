// The page's text, for Mustache: {{name}} is escaped.
#pragma once

namespace kvcert::certify {

inline constexpr const char* page_template = R"HTML(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>kvcert: {{subject}}</title>
<style>{{{css}}}</style></head><body>
<h1>{{subject}}</h1>
<p class="soft">{{name}} {{version}}{{#option}} · option {{option}}{{/option}}{{#sha1}} · SHA-1 <span class="mono">{{sha1}}</span>{{/sha1}} · judged by kvcert {{judge}}</p>
<div class="verdict {{good}}">{{sentence}}</div>
<div class="tiles">{{#tiles}}<div class="tile {{tone}}"><b>{{number}}</b><span class="soft">{{what}}</span></div>{{/tiles}}</div>
{{#has_findings}}<h2>What is wrong</h2>{{/has_findings}}
{{#likely}}<p>{{likely}}</p>{{/likely}}
{{#findings}}<div class="finding"><p><span class="v wrong">{{check}}</span> <span class="soft">{{wrong}} of {{cases}} cases{{#id}}, the first is {{id}}{{/id}}</span></p>
<p>{{sentence}}</p>{{#hint}}<p><b>{{hint}}</b></p>{{/hint}}<p class="soft">Broken: {{law}}</p></div>{{/findings}}
<h2>How far the outputs are from the real value</h2>
<p class="soft">{{histogram_caption}}</p>
{{{histogram}}}
<h2>What was exercised</h2>
<p class="soft">Judged outputs (one query head of one position) by geometry and feature. Hatched: not exercised, so nothing is said about it.</p>
<div class="scroll"><table class="heat"><tr><th class="g">KV heads × head_dim</th>{{#features}}<th>{{feature}}</th>{{/features}}</tr>
{{#coverage}}<tr><th class="g">{{geometry}}</th>{{#cells}}<td class="{{class}}" style="{{style}}">{{n}}</td>{{/cells}}</tr>
{{/coverage}}</table></div>
<h2>Checks</h2>
<div class="scroll"><table><tr><th>check</th><th>verdict</th><th class="n">cases</th><th class="n">not judged</th><th>what was asked</th></tr>
{{#checks}}<tr><td>{{check}}</td><td class="v {{tone}}">{{verdict}}</td><td class="n">{{cases}}</td><td class="n">{{open}}</td><td>{{promise}}</td></tr>
{{/checks}}</table></div>
)HTML";

}  // namespace kvcert::certify
