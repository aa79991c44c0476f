// What was measured: as a table, as JSON, and two runs held against each other.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/measure.hpp"

namespace kvcert::bench {

/// One work by one ISA or yardstick. Seconds are per unit of work.
struct Row {
  std::string work, by;
  Quartiles seconds;
  double bytes, multiply_adds;   ///< per unit
  double bandwidth, peak;        ///< bytes and multiply-adds a second that the machine gave in the same rounds, 0: not asked
  double limit() const;          ///< seconds that the slower of both takes, 0 without either
};

void print(const std::vector<Row>& rows, bool cold);
bool write_json(const std::string& path, const std::vector<Row>& rows);

/// Prints what the second run is slower in than noise explains: every quartile above the first run's, and the median by
/// more than a tenth. Their number, or −1 where a file cannot be read.
int compare(const std::string& before, const std::string& after);

}  // namespace kvcert::bench
