#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "starling/data/dataset.h"

namespace starling {

// Mean and spread of a stream of numbers; merging the parts of a stream gives what the whole would. NaN and infinities
// are counted and left out of the rest.
struct Moments {
  std::int64_t count = 0;  // of finite values
  std::int64_t nans = 0;
  std::int64_t infinities = 0;
  std::int64_t zeros = 0;
  double mean = 0;
  double squares = 0;  // sum of squared distances from the mean
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();

  void merge(const Moments& other);
  double std() const;  // of the population; NaN when there is nothing
};

// What one field of the samples holds.
struct FieldSummary {
  TensorType type{};  // of one sample
  std::int64_t samples = 0;
  Moments all{};
  std::vector<Moments> channels{};  // of pictures [c, h, w] with 2 to 4 channels
  // How many samples have each value, of single integers; empty where there are more than kMostValues.
  std::map<std::int64_t, std::int64_t> values{};
  static constexpr std::size_t kMostValues = 1000;
};

// Sums up batches as they come.
class FieldSummaries {
 public:
  explicit FieldSummaries(const std::vector<TensorType>& fields);  // of one sample
  void add(std::span<const Tensor> batch);                         // a field each: [n, …], dense on a CPU
  std::vector<FieldSummary> take();

 private:
  std::vector<FieldSummary> made_;
  std::vector<bool> counting_;  // the values of a field
};

struct SummaryOptions {
  std::int64_t limit = 0;                             // samples to look at, spread over the set; 0: all
  std::int64_t chunk_bytes = std::int64_t{16} << 20;  // read at once, about
};

// Reads the samples once, in bounded memory.
std::vector<FieldSummary> summarise(const Dataset& data, const SummaryOptions& options = {});

// The same of one array, samples along its first axis; one number is one sample.
FieldSummary summarise(const Tensor& array, const SummaryOptions& options = {});

// A table of fields with their names, and below it how often the values of single integers occur, with their names
// where they have some.
struct NamedSummary {
  std::string name;
  FieldSummary field;
  std::vector<std::string> value_names{};
};
std::string to_text(const std::vector<NamedSummary>& fields);

}  // namespace starling
