#include "starling/data/records/field_summary.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "starling/base/as_double.h"
#include "starling/base/parallel.h"
#include "starling/data/formats/host_bytes.h"
#include "starling/tensor/bytes.h"

namespace starling::data {
namespace {

constexpr std::int64_t kBlock = 4096;  // values per block; two passes over a block are exact and fast
constexpr std::int64_t kGrain = 1 << 15;

template <class T>
FieldMoments moments_of_block(const T* values, std::int64_t n) {
  FieldMoments made;
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double value = as_double(values[i]);
    if (!std::isfinite(value)) {
      (std::isnan(value) ? made.nans : made.infinities) += 1;
      continue;
    }
    ++made.count;
    made.zeros += value == 0 ? 1 : 0;
    made.min = std::min(made.min, value);
    made.max = std::max(made.max, value);
    sum += value;
  }
  if (made.count == 0) return made;
  made.mean = sum / static_cast<double>(made.count);
  for (std::int64_t i = 0; i < n; ++i) {
    const double value = as_double(values[i]);
    if (std::isfinite(value)) made.squares += (value - made.mean) * (value - made.mean);
  }
  return made;
}

template <class T>
FieldMoments moments_of(const T* values, std::int64_t n) {
  FieldMoments all;
  for (std::int64_t at = 0; at < n; at += kBlock) all.merge(moments_of_block(values + at, std::min(kBlock, n - at)));
  return all;
}

bool has_channels(const Shape& shape) { return shape.rank() == 3 && shape[0] >= 2 && shape[0] <= 4; }

template <class T>
void add_values(FieldSummary& field, const Tensor& batch, bool counting) {
  const T* values = batch.data<T>();
  const auto planes = static_cast<std::int64_t>(std::max<std::size_t>(field.channels.size(), 1));
  const std::int64_t plane = planes > 1 ? field.type.shape.numel() / planes : batch.numel();
  std::mutex mutex;
  const auto merge = [&](std::int64_t piece, const FieldMoments& moments) {
    const std::lock_guard lock(mutex);
    field.all.merge(moments);
    if (planes > 1) field.channels[static_cast<std::size_t>(piece % planes)].merge(moments);
  };
  if (planes == 1) {
    parallel_for(plane, kGrain,
                 [&](std::int64_t begin, std::int64_t end) { merge(0, moments_of(values + begin, end - begin)); });
  } else if (plane > 0) {
    parallel_for(batch.numel() / plane, std::max<std::int64_t>(1, kGrain / plane),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) merge(i, moments_of(values + i * plane, plane));
                 });
  }
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    for (std::int64_t i = 0; counting && i < batch.numel(); ++i) ++field.values[static_cast<std::int64_t>(values[i])];
  }
}

// Index of the i-th of `count` samples spread evenly over `size`.
std::int64_t spread(std::int64_t i, std::int64_t count, std::int64_t size) {
  return size / count * i + size % count * i / count;
}

std::vector<Tensor> gathered(const Dataset& data, const std::vector<std::int64_t>& rows) {
  std::vector<Tensor> out;
  for (const auto& type : data.fields()) {
    Shape shape = type.shape;
    shape.insert(0, static_cast<std::int64_t>(rows.size()));
    out.push_back(empty(shape, type.dtype));
  }
  data.gather(rows, out);
  return out;
}

}  // namespace

void FieldMoments::merge(const FieldMoments& other) {
  nans += other.nans;
  infinities += other.infinities;
  zeros += other.zeros;
  min = std::min(min, other.min);
  max = std::max(max, other.max);
  if (other.count == 0) return;
  const auto a = static_cast<double>(count), b = static_cast<double>(other.count);
  const double apart = other.mean - mean;
  mean += apart * b / (a + b);
  squares += other.squares + apart * apart * a * b / (a + b);
  count += other.count;
}

double FieldMoments::std() const {
  return count > 0 ? std::sqrt(squares / static_cast<double>(count)) : std::numeric_limits<double>::quiet_NaN();
}

FieldSummaries::FieldSummaries(const std::vector<TensorType>& fields) {
  for (const auto& type : fields) {
    auto& field = made_.emplace_back(FieldSummary{.type = type});
    if (has_channels(type.shape)) field.channels.resize(static_cast<std::size_t>(type.shape[0]));
    counting_.push_back(is_integer(type.dtype) && type.shape.numel() == 1);
  }
}

void FieldSummaries::add(std::span<const Tensor> batch) {
  check(batch.size() == made_.size(), "[summary] expected {} fields, got {}", made_.size(), batch.size());
  for (std::size_t f = 0; f < made_.size(); ++f) {
    made_[f].samples += batch[f].size(0);
    dispatch(batch[f].dtype(), [&]<class T>() { add_values<T>(made_[f], batch[f], counting_[f]); });
    if (made_[f].values.size() > FieldSummary::kMostValues) {
      counting_[f] = false;
      made_[f].values.clear();
    }
  }
}

std::vector<FieldSummary> FieldSummaries::take() { return std::move(made_); }

std::vector<FieldSummary> summarise(const Dataset& data, const SummaryOptions& options) {
  FieldSummaries made(data.fields());
  const std::int64_t size = data.size();
  const std::int64_t count = options.limit > 0 ? std::min(options.limit, size) : size;
  const std::int64_t bytes = std::max<std::int64_t>(static_cast<std::int64_t>(bytes_of(data.fields())), 1);
  const std::int64_t chunk = std::clamp<std::int64_t>(options.chunk_bytes / bytes, 1, 65536);
  for (std::int64_t at = 0; at < count; at += chunk) {
    std::vector<std::int64_t> rows;
    for (std::int64_t i = at; i < std::min(count, at + chunk); ++i) rows.push_back(spread(i, count, size));
    made.add(gathered(data, rows));
  }
  return made.take();
}

FieldSummary summarise(const Tensor& array, const SummaryOptions& options) {
  const Tensor host = on_host(array);
  const Tensor rows = host.rank() > 0 ? host : view_of(host, {1}, {1}, 0);
  return summarise(TensorDataset({rows}), options).front();
}

}  // namespace starling::data
