// Judging a stream of answers against a file of cases. Of each case 16 bytes stay in memory: where it is, and what its id hashes to.
#pragma once

#include <cstdint>
#include <deque>
#include <fstream>
#include <istream>
#include <string>

#include "certify/foreign/report.hpp"

namespace kvcert::certify {

class AnswersJudge {
 public:
  /// `findings`: where the first wrong case of each check goes; empty: nowhere.
  AnswersJudge(std::string cases_file, std::string findings);

  /// Reads the cases once for their places; a sentence if there are none or the file cannot be read.
  std::string index();
  /// Every line of answers gets its verdict, in any order. Then the cases that no line answered get theirs.
  void judge(std::istream& answers, EngineReport& report);

 private:
  struct Entry {
    std::uint64_t hash;
    std::uint64_t offset_and_answered;  ///< the lowest bit: answered
  };
  void line(const std::string& text, std::uint64_t number, EngineReport& report);
  Entry* find(const std::string& id, EngineCase& test);
  EngineCase read_case(std::uint64_t offset);
  void problem(EngineReport& report, const std::string& sentence);
  void missing(EngineReport& report);

  std::string path_, findings_;
  std::ifstream file_;
  std::deque<Entry> entries_;  // grows without a copy of itself
  bool answered_any_ = false;
  std::uint64_t problems_ = 0;
  std::uint64_t malformed_cases_ = 0;
  std::string first_malformed_case_;
};

}  // namespace kvcert::certify
