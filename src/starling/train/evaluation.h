#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace starling {

// What an evaluation found, by the names of the metrics.
struct Evaluation {
  std::map<std::string, double> metrics{};
  std::map<std::string, std::string> tables{};  // of metrics that have one
  std::int64_t samples = 0;
};

}  // namespace starling
