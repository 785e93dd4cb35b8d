#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace starling {

// Results of an evaluation, by metric name.
struct Evaluation {
  std::map<std::string, double> metrics{};
  std::map<std::string, std::string> tables{};  // for metrics with a table, such as a confusion matrix
  std::int64_t samples = 0;
};

}  // namespace starling
