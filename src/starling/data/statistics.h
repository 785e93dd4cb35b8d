#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "starling/data/dataset.h"

namespace starling {

// What one field of a data set holds. NaN and infinite values are counted and left out of the rest.
struct FieldStatistics {
  static constexpr std::array<double, 5> kQuantiles = {0.01, 0.25, 0.5, 0.75, 0.99};

  TensorType type{};
  std::int64_t count = 0;  // of values that are finite
  std::int64_t nan = 0;
  std::int64_t infinite = 0;
  double min = 0, max = 0, mean = 0, std = 0;      // of the whole, std with n in the denominator
  std::array<double, 5> quantiles{};               // of a sample of at most 65536 values
  bool sampled = false;                            // whether there were more than that
  std::map<std::int64_t, std::int64_t> classes{};  // of integers that stand alone: how often each value occurs
  bool classes_cut = false;                        // there are more than 1000 different ones: none are told
};

struct DataStatistics {
  std::int64_t samples = 0;    // of the data set
  std::int64_t looked_at = 0;  // fewer when a limit was given: evenly spread over the set
  std::vector<FieldStatistics> fields{};
};

struct StatisticsOptions {
  std::int64_t most_samples = 0;  // 0: all
  std::int64_t batch = 256;       // samples read at a time
};

// Reads the data set once, with memory for one batch. Deterministic.
DataStatistics data_statistics(const Dataset& dataset, const StatisticsOptions& options = {});

nlohmann::json to_json(const DataStatistics& statistics);
// A table for people; names of classes are shown where there are as many as classes.
std::string to_text(const DataStatistics& statistics, const std::vector<std::string>& class_names = {});

}  // namespace starling
