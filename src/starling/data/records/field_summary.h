#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "starling/data/datasets/dataset.h"

namespace starling::data {

// Running mean and variance; merging the moments of parts gives those of the whole. NaN and infinities are counted and
// excluded from the rest.
struct FieldMoments {
  std::int64_t count = 0;  // finite values
  std::int64_t nans = 0;
  std::int64_t infinities = 0;
  std::int64_t zeros = 0;
  double mean = 0;
  double squares = 0;  // sum of squared distances from the mean
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();

  void merge(const FieldMoments& other);
  double std() const;  // population standard deviation; NaN if there are no values
};

// Statistics of one field over the samples.
struct FieldSummary {
  TensorType type{};  // type of the field in one sample
  std::int64_t samples = 0;
  FieldMoments all{};
  std::vector<FieldMoments> channels{};  // per channel, for images [c, h, w] with 2 to 4 channels
  // Samples per value, for scalar integer fields; empty if there are more than kMostValues values.
  std::map<std::int64_t, std::int64_t> values{};
  static constexpr std::size_t kMostValues = 1000;
};

// Accumulates field statistics batch by batch.
class FieldSummaries {
 public:
  explicit FieldSummaries(const std::vector<TensorType>& fields);  // type of the field in one sample
  void add(std::span<const Tensor> batch);  // one tensor per field: [n, …], contiguous on the CPU
  std::vector<FieldSummary> take();

 private:
  std::vector<FieldSummary> made_;
  std::vector<bool> counting_;  // whether the values of each field are still counted
};

struct SummaryOptions {
  std::int64_t limit = 0;                             // samples to read, spread over the set; 0: all
  std::int64_t chunk_bytes = std::int64_t{16} << 20;  // approximate bytes read at once
};

// Reads the samples once, in bounded memory.
std::vector<FieldSummary> summarise(const Dataset& data, const SummaryOptions& options = {});

// Statistics of one array, samples along its first axis.
FieldSummary summarise(const Tensor& array, const SummaryOptions& options = {});

// Table of field statistics, followed by the value counts of scalar integer fields, with value names if given.
struct NamedSummary {
  std::string name;
  FieldSummary field;
  std::vector<std::string> value_names{};
};
std::string to_text(const std::vector<NamedSummary>& fields);

}  // namespace starling::data
