#include "starling/dist/strategy/gradient_reducer.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/dist/health/replica_hash.h"
#include "starling/kernels/eager.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/ops/def/apply.h"

namespace starling {
namespace {

DType wire_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

std::string describe(const Tensor& parameter) {
  return fmt::format("'{}' {}", parameter.name(), to_string(parameter.type()));
}

// FNV-1a hash: the same on every machine.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 14695981039346656037ull;
  for (const unsigned char c : text) hash = (hash ^ c) * 1099511628211ull;
  return hash;
}

std::size_t wire_bytes(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel()) * size_of(wire_dtype(tensor.dtype()));
}

}  // namespace

GradientReducer::GradientReducer(Comm& comm, std::span<const Tensor> parameters, const GradientReducerOptions& options)
    : comm_(comm), overlap_(options.overlap) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& tensor = parameters[i];
    check(tensor.defined() && tensor.requires_grad() && is_float(tensor.dtype()),
          "[gradient_reducer] expected parameters that require gradients, got {} at place {}",
          tensor.defined() ? describe(tensor) : "an empty handle", i);
    const auto is_same = [&](const Parameter& other) { return same(other.tensor, tensor); };
    if (std::none_of(parameters_.begin(), parameters_.end(), is_same)) parameters_.push_back({.tensor = tensor});
  }
  std::reverse(parameters_.begin(), parameters_.end());
  agree();
  make_buckets(options);
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    parameters_[i].hook = parameters_[i].tensor.register_filled_hook([this, i](const Tensor&) { on_filled(i); });
}

GradientReducer::~GradientReducer() {
  for (auto& parameter : parameters_) parameter.hook.remove();
  const auto is_under_way = [](const Bucket& bucket) { return bucket.under_way; };
  if (!active_ && std::none_of(buckets_.begin(), buckets_.end(), is_under_way)) return;
  if (comm_.size() > 1) comm_.abort("gradients were given up between begin() and finish()");
  for (const Bucket& bucket : buckets_) {
    try {
      if (bucket.under_way) bucket.work.wait();
    } catch (const Error&) {  // expected; the memory is no longer in use afterwards
    }
  }
}

// Checks once that all ranks have the same parameters, since exchanged buckets carry no names.
void GradientReducer::agree() const {
  const auto ranks = static_cast<std::size_t>(comm_.size());
  const auto own = static_cast<std::int64_t>(parameters_.size());
  std::vector<std::int64_t> counts(ranks);
  comm_.all_gather(&own, counts.data(), 1, DType::i64, {.name = "gradient_reducer/counts"}).wait();
  for (std::size_t r = 0; r < ranks; ++r) {
    check(counts[r] == counts[0],
          "[gradient_reducer] expected the same parameters on all ranks, got {} on rank 0 and {} on rank {}", counts[0],
          counts[r], r);
  }
  std::vector<std::uint64_t> hashes, all(ranks * parameters_.size());
  for (const auto& parameter : parameters_) hashes.push_back(hash_of(describe(parameter.tensor)));
  comm_.all_gather(hashes.data(), all.data(), own, DType::u64, {.name = "gradient_reducer/parameters"}).wait();
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      check(
          all[r * parameters_.size() + i] == all[i],
          "[gradient_reducer] expected the same parameters on all ranks, got another one on rank {} than on rank 0 at "
          "place {}; here, on rank {}, it is {}",
          r, parameters_.size() - 1 - i, comm_.rank(), describe(parameters_[i].tensor));
    }
  }
  std::vector<NamedTensor> named;  // names of parameters need not be unique
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    named.push_back(
        {fmt::format("{} {}", parameters_.size() - 1 - i, parameters_[i].tensor.name()), parameters_[i].tensor});
  dist::expect_equal_start(comm_, named, "gradient_reducer");
}

void GradientReducer::make_buckets(const GradientReducerOptions& options) {
  std::vector<std::size_t> bytes;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& tensor = parameters_[i].tensor;
    const DType dtype = wire_dtype(tensor.dtype());
    // Newest bucket of that dtype, if there is room.
    std::size_t at = buckets_.size();
    while (at > 0 && buckets_[at - 1].dtype != dtype) --at;
    const std::size_t cap = at <= 1 ? options.first_bucket_bytes : options.bucket_bytes;
    if (at == 0 || bytes[at - 1] + wire_bytes(tensor) > cap) {
      buckets_.push_back({.dtype = dtype});
      bytes.push_back(0);
      at = buckets_.size();
    }
    parameters_[i].bucket = at - 1;
    bytes[at - 1] += wire_bytes(tensor);
    buckets_[at - 1].members.push_back(i);
  }
  for (Bucket& bucket : buckets_) {
    bucket.count = 1 + static_cast<std::int64_t>(bucket.members.size());
    for (std::size_t i : bucket.members) {
      parameters_[i].offset = bucket.count;
      bucket.count += parameters_[i].tensor.numel();
    }
    bucket.memory.resize((static_cast<std::size_t>(bucket.count) * size_of(bucket.dtype) + 7) / 8);
  }
}

void GradientReducer::begin(double samples) {
  check(!active_, "[gradient_reducer] expected finish() before the next begin()");
  check(samples >= 0, "[gradient_reducer] expected at least 0 samples, got {}", samples);
  samples_ = samples;
  next_ = 0;
  early_ = 0;
  for (auto& parameter : parameters_) parameter.filled = false;
  for (auto& bucket : buckets_) bucket.missing = bucket.members.size();
  active_ = true;
}

void GradientReducer::on_filled(std::size_t i) {
  if (!active_) return;
  Parameter& parameter = parameters_[i];
  if (parameter.filled) {
    fail(
        "[gradient_reducer] expected one backward pass between begin() and finish(), got a second gradient of {}: "
        "call begin() before the last pass",
        describe(parameter.tensor));
  }
  parameter.filled = true;
  if (--buckets_[parameter.bucket].missing == 0 && overlap_) start_full();
}

void GradientReducer::start_full() {
  while (next_ < buckets_.size() && buckets_[next_].missing == 0) {
    start(buckets_[next_++]);
    ++early_;
  }
}

void GradientReducer::start(Bucket& bucket) {
  if (bucket.dtype == DType::f64)
    pack<double>(bucket);
  else
    pack<float>(bucket);
  const std::string name = fmt::format("gradient_reducer/bucket {}", &bucket - buckets_.data());
  void* data = bucket.memory.data();
  bucket.work = comm_.all_reduce(data, data, bucket.count, bucket.dtype, ReduceOp::sum, {.name = name});
  bucket.under_way = true;
}

template <class T>
void GradientReducer::pack(Bucket& bucket) {
  const NoGrad no_grad;
  T* out = reinterpret_cast<T*>(bucket.memory.data());
  out[0] = static_cast<T>(samples_);
  for (std::size_t k = 0; k < bucket.members.size(); ++k) {
    const Parameter& parameter = parameters_[bucket.members[k]];
    const Tensor grad = parameter.tensor.grad();
    const bool used = grad.defined() && samples_ > 0;  // a mean over no samples is meaningless
    out[1 + k] = used ? T(1) : T(0);
    T* to = out + parameter.offset;
    if (!used) {
      std::fill_n(to, parameter.tensor.numel(), T(0));
      continue;
    }
    const Tensor wide = kernels::densify(cast(dense(grad), bucket.dtype));
    const T* from = wide.data<T>();
    for (std::int64_t j = 0; j < wide.numel(); ++j) to[j] = from[j] * out[0];
  }
}

void GradientReducer::finish() {
  check(active_, "[gradient_reducer] expected begin() before finish()");
  active_ = false;
  while (next_ < buckets_.size()) start(buckets_[next_++]);
  for (Bucket& bucket : buckets_) {
    bucket.work.wait();
    bucket.under_way = false;
    if (bucket.dtype == DType::f64)
      unpack<double>(bucket);
    else
      unpack<float>(bucket);
  }
}

template <class T>
void GradientReducer::unpack(const Bucket& bucket) {
  const NoGrad no_grad;
  const T* in = reinterpret_cast<const T*>(bucket.memory.data());
  const T share = in[0] > 0 ? T(1) / in[0] : T(0);
  for (std::size_t k = 0; k < bucket.members.size(); ++k) {
    const Parameter& parameter = parameters_[bucket.members[k]];
    if (in[1 + k] == T(0)) {
      parameter.tensor.set_grad(Tensor());
      continue;
    }
    const Tensor mean = empty(parameter.tensor.shape(), bucket.dtype);
    T* to = mean.data<T>();
    const T* from = in + parameter.offset;
    for (std::int64_t j = 0; j < mean.numel(); ++j) to[j] = from[j] * share;
    parameter.tensor.set_grad(cast(mean, parameter.tensor.dtype()));
  }
}

}  // namespace starling
