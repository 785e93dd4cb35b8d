#include "starling/data/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "starling/base/error.h"
#include "starling/base/philox.h"

namespace starling {
namespace {

constexpr std::size_t kReservoir = 65536;
constexpr std::size_t kMostClasses = 1000;

// Gathers one field's numbers: moments by Welford's method, quantiles from a reservoir in which every value has the
// same chance to be, chosen by counter-based draws so that the same data gives the same numbers.
class FieldCounter {
 public:
  FieldCounter(const TensorType& type, std::uint64_t field) : stream_({.seed = 0x73746174, .step = 0, .site = field}) {
    result_.type = type;
    counts_classes_ = (is_integer(type.dtype) || type.dtype == DType::boolean) && type.shape.numel() == 1;
    low_ = std::numeric_limits<double>::infinity();
    high_ = -low_;
  }

  void add(double value) {
    if (std::isnan(value)) {
      ++result_.nan;
      return;
    }
    if (std::isinf(value)) {
      ++result_.infinite;
      return;
    }
    const std::int64_t count = ++result_.count;
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
    const double away = value - mean_;
    mean_ += away / static_cast<double>(count);
    squares_ += away * (value - mean_);
    keep(value, static_cast<std::uint64_t>(count));
    if (counts_classes_ && !result_.classes_cut) {
      ++result_.classes[static_cast<std::int64_t>(value)];
      if (result_.classes.size() > kMostClasses) {
        result_.classes.clear();
        result_.classes_cut = true;
      }
    }
  }

  FieldStatistics finish() {
    if (result_.count == 0) return result_;
    result_.min = low_;
    result_.max = high_;
    result_.mean = mean_;
    result_.std = std::sqrt(squares_ / static_cast<double>(result_.count));
    std::sort(kept_.begin(), kept_.end());
    for (std::size_t i = 0; i < result_.quantiles.size(); ++i) {
      const double place = FieldStatistics::kQuantiles[i] * static_cast<double>(kept_.size() - 1);
      const auto below = static_cast<std::size_t>(place);
      const double share = place - static_cast<double>(below);
      const double above = kept_[std::min(below + 1, kept_.size() - 1)];
      result_.quantiles[i] = kept_[below] + share * (above - kept_[below]);
    }
    return result_;
  }

 private:
  void keep(double value, std::uint64_t count) {
    if (kept_.size() < kReservoir) {
      kept_.push_back(value);
      if (kept_.size() == kReservoir) choose_next(count);
      return;
    }
    result_.sampled = true;
    if (count < next_) return;
    kept_[static_cast<std::size_t>(philox_uniform53(stream_, draw_++) * kReservoir)] = value;
    choose_next(count);
  }

  // Algorithm L (Li 1994): how many values pass before the next is taken, so that draws are few.
  void choose_next(std::uint64_t count) {
    weight_ *= std::exp(std::log(1 - philox_uniform53(stream_, draw_++)) / kReservoir);
    const double skip = std::floor(std::log(1 - philox_uniform53(stream_, draw_++)) / std::log1p(-weight_));
    next_ = count + static_cast<std::uint64_t>(std::min(skip, 1e18)) + 1;
  }

  FieldStatistics result_;
  PhiloxStream stream_;
  std::uint64_t draw_ = 0;
  std::uint64_t next_ = 0;
  double weight_ = 1;
  bool counts_classes_ = false;
  double low_ = 0, high_ = 0, mean_ = 0, squares_ = 0;
  std::vector<double> kept_;
};

void add_all(FieldCounter& counter, const Tensor& tensor) {
  dispatch(tensor.dtype(), [&]<class T>() {
    const T* values = tensor.data<T>();
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
      if constexpr (std::is_arithmetic_v<T>) {
        counter.add(static_cast<double>(values[i]));
      } else {
        counter.add(static_cast<double>(static_cast<float>(values[i])));
      }
    }
  });
}

}  // namespace

DataStatistics data_statistics(const Dataset& dataset, const StatisticsOptions& options) {
  check(options.batch >= 1 && options.most_samples >= 0, "[statistics] expected a batch of at least 1, got {}",
        options.batch);
  DataStatistics result;
  result.samples = dataset.size();
  result.looked_at = options.most_samples > 0 ? std::min(options.most_samples, result.samples) : result.samples;
  std::vector<FieldCounter> counters;
  const auto types = dataset.fields();
  for (std::size_t f = 0; f < types.size(); ++f) counters.emplace_back(types[f], f);
  std::vector<std::int64_t> rows;
  for (std::int64_t at = 0; at < result.looked_at; at += std::ssize(rows)) {
    rows.clear();
    const std::int64_t end = std::min(at + options.batch, result.looked_at);
    // Evenly spread over the set; all of it when there is no limit. In 128 bits, since samples may be many.
    __extension__ using Wide = __int128;
    for (auto i = at; i < end; ++i)
      rows.push_back(static_cast<std::int64_t>(Wide{i} * result.samples / result.looked_at));
    std::vector<Tensor> fields;
    for (auto type : types) {
      type.shape.insert(0, std::ssize(rows));
      fields.push_back(empty(type.shape, type.dtype));
    }
    dataset.gather(rows, fields);
    for (std::size_t f = 0; f < fields.size(); ++f) add_all(counters[f], fields[f]);
  }
  for (auto& counter : counters) result.fields.push_back(counter.finish());
  return result;
}

nlohmann::json to_json(const DataStatistics& statistics) {
  nlohmann::json fields = nlohmann::json::array();
  for (const auto& field : statistics.fields) {
    nlohmann::json one = {{"dtype", std::string(name(field.type.dtype))},
                          {"shape", std::vector<std::int64_t>(field.type.shape.begin(), field.type.shape.end())},
                          {"count", field.count},
                          {"nan", field.nan},
                          {"infinite", field.infinite},
                          {"min", field.min},
                          {"max", field.max},
                          {"mean", field.mean},
                          {"std", field.std},
                          {"quantiles_sampled", field.sampled}};
    for (std::size_t i = 0; i < field.quantiles.size(); ++i) {
      one["quantiles"][fmt::format("{}", FieldStatistics::kQuantiles[i])] = field.quantiles[i];
    }
    for (const auto& [value, count] : field.classes) one["classes"][std::to_string(value)] = count;
    fields.push_back(std::move(one));
  }
  return {{"samples", statistics.samples}, {"looked_at", statistics.looked_at}, {"fields", fields}};
}

std::string to_text(const DataStatistics& statistics, const std::vector<std::string>& class_names) {
  std::string text = fmt::format("{} samples", statistics.samples);
  if (statistics.looked_at < statistics.samples) text += fmt::format(", {} of them looked at", statistics.looked_at);
  text += '\n';
  for (std::size_t f = 0; f < statistics.fields.size(); ++f) {
    const auto& field = statistics.fields[f];
    text += fmt::format("field {}  {}\n", f, to_string(field.type));
    text += fmt::format("  min {:.6g}  max {:.6g}  mean {:.6g}  std {:.6g}\n  quantiles", field.min, field.max,
                        field.mean, field.std);
    for (std::size_t i = 0; i < field.quantiles.size(); ++i) {
      text += fmt::format("  {}%: {:.6g}", FieldStatistics::kQuantiles[i] * 100, field.quantiles[i]);
    }
    text += fmt::format("{}\n", field.sampled ? "  (of 65536 values)" : "");
    if (field.nan + field.infinite > 0) text += fmt::format("  {} NaN, {} infinite\n", field.nan, field.infinite);
    if (field.classes.empty()) continue;
    const bool named = !class_names.empty() && field.classes.begin()->first >= 0 &&
                       field.classes.rbegin()->first < std::ssize(class_names);
    for (const auto& [value, count] : field.classes) {
      const double share = 100 * static_cast<double>(count) / static_cast<double>(field.count);
      text += fmt::format("  {:>6} {:>10}  {:5.1f} %{}\n", value, count, share,
                          named ? "  " + class_names[static_cast<std::size_t>(value)] : "");
    }
  }
  return text;
}

}  // namespace starling
