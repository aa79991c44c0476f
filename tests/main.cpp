// The test program: every suite in one binary.
#define BOOST_TEST_MODULE kvcert
#include <boost/test/unit_test.hpp>

#include "certify/test_case.hpp"

#include <nlohmann/json.hpp>
#include <ostream>

namespace kvcert::certify {
void showValue(const TestCase& test, std::ostream& stream) { stream << to_json(test).dump(); }
}  // namespace kvcert::certify
