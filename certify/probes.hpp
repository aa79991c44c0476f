// Probes: questions whose right answer is a closed form, and whose nearby wrong answers are known by name.
#pragma once

#include <string>
#include <vector>

#include "certify/engine.hpp"
#include "certify/judge.hpp"
#include "certify/laws/law.hpp"

namespace kvcert::certify {

/// An answer that an engine would give if it worked in this way.
struct Hypothesis {
  std::string behaviour;  ///< "the window held one row more"
  double value = 0;
};

/// Every value row is constant across head_dim, so every number of a head's output is the same closed form.
struct Probe {
  std::string name;      ///< "window"
  std::string question;  ///< "q = 0, V = position, rows 2 to 5 visible"
  TestCase test;
  std::vector<double> right;                   ///< [heads]
  std::vector<std::vector<Hypothesis>> wrong;  ///< [heads][any]
};

/// All probes, by name, in the order they are shown.
std::vector<Probe> all_probes();

/// Holds an answer [heads × HD] against the probe: right within the bound; else wrong, with the nearest hypothesis. A
/// probe whose wrong hypotheses lie within twice the bound of the right one could not tell them apart: violated as well.
Outcome judge_probe(const Probe& probe, std::span<const float> out, Tally& tally);

template <class Engine>
Outcome run_probe(const Engine& engine, const Probe& probe, Tally& tally) {
  return judge_probe(probe, ask(filled_layer(engine, probe.test), probe.test).out, tally);
}

}  // namespace kvcert::certify
