#include "starling/nn/deferred_weights.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "starling/base/error.h"
#include "starling/base/thread/thread_context.h"
#include "starling/ops/api/random.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/random.h"
#include "starling/ops/def/registry.h"
#include "starling/tensor/bytes.h"
#include "starling/tensor/interpreter.h"
#include "starling/tensor/without_memory.h"

namespace starling::nn {
namespace {

// Puts the key of an earlier time in the place of the generator's during its lifetime.
class KeyOf {
 public:
  explicit KeyOf(const Tensor& key) : before_(copied(default_generator().key())) {
    copy_into(default_generator().key(), key);
  }
  ~KeyOf() { copy_into(default_generator().key(), before_); }
  KeyOf(const KeyOf&) = delete;
  KeyOf& operator=(const KeyOf&) = delete;

 private:
  Tensor before_;
};

// The numbers of a run, straight into the piece: as places in the flat tensor.
void draw_run(const Draw& draw, const Tensor& key, std::int64_t site, std::int64_t numel, const ElementRun& run,
              const Tensor& piece) {
  if (draw.kind == Draw::Kind::constant) {
    std::fill_n(piece.data<float>() + run.part, run.count, static_cast<float>(draw.a));
    return;
  }
  static const OpDef& uniform = find_op("uniform");
  static const OpDef& normal = find_op("normal");
  const Tensor into[] = {view_of(piece, {run.count}, {1}, run.part)};
  const op::RandomAttrs attrs{.shape = {run.count},
                              .global = {numel},
                              .offset = {run.whole},
                              .site = site,
                              .a = draw.a,
                              .b = draw.b,
                              .dtype = DType::f32};
  eager_interpreter().apply_into(draw.kind == Draw::Kind::uniform ? uniform : normal, {&key, 1}, attrs, into);
}

void copy_run(const Tensor& whole, const ElementRun& run, const Tensor& piece) {
  std::copy_n(whole.data<float>() + run.whole, run.count, piece.data<float>() + run.part);
}

// Zeros where the run crosses the elements [first, first + count) of the whole.
void clear_within(const ElementRun& run, std::int64_t first, std::int64_t count, const Tensor& piece) {
  const std::int64_t begin = std::max(run.whole, first), end = std::min(run.whole + run.count, first + count);
  if (begin < end)
    std::fill(piece.data<float>() + run.part + begin - run.whole, piece.data<float>() + run.part + end - run.whole,
              0.0F);
}

}  // namespace

DeferredWeights::DeferredWeights() : outer_(std::exchange(thread_context().weights, this)) {}
DeferredWeights::~DeferredWeights() { thread_context().weights = outer_; }
DeferredWeights* DeferredWeights::innermost() { return thread_context().weights; }

DeferredWeights::Pause::Pause() : before_(std::exchange(thread_context().weights, nullptr)) {}
DeferredWeights::Pause::~Pause() { thread_context().weights = before_; }

Tensor DeferredWeights::defer(const Shape& shape, const std::optional<Draw>& draw, int sites,
                              std::function<Tensor()> whole) {
  Value value{.handle = without_memory({DType::f32, shape}),
              .draw = draw,
              .key = copied(default_generator().key()),
              .whole = std::move(whole)};
  for (int i = 0; i < sites; ++i) value.site = next_random_site();
  const Tensor made = value.handle;
  values_.emplace(made.impl(), std::move(value));
  return made;
}

const DeferredWeights::Value& DeferredWeights::value(const Tensor& tensor) const {
  const auto found = values_.find(tensor.impl());
  check(found != values_.end(), "[deferred_weights] expected a tensor that was deferred, got '{}'", tensor.name());
  return found->second;
}

void DeferredWeights::clear_row(const Tensor& matrix, std::int64_t row) {
  static_cast<void>(value(matrix));
  values_.at(matrix.impl()).zero_rows.push_back(row);
}

void DeferredWeights::begin_as(const Tensor& tensor, const Tensor& other) {
  check(tensor.impl() != other.impl() && tensor.shape() == other.shape(),
        "[deferred_weights] expected another deferred tensor of {}, got {}", to_string(tensor.shape()),
        to_string(other.shape()));
  static_cast<void>(value(tensor));
  static_cast<void>(value(other));
  Value begins = std::move(values_.extract(other.impl()).mapped());
  begins.handle = tensor;
  values_.insert_or_assign(tensor.impl(), std::move(begins));
}

// The value as initial() would have made it at the time, by the same numbers.
Tensor DeferredWeights::replayed(const Value& value) {
  const NoGrad no_grad;
  const Pause now;
  const KeyOf key(value.key);
  const SiteReplay replay(value.point);
  return value.whole();
}

void DeferredWeights::write(const Value& value, std::span<const ElementRun> runs, const Tensor& piece) {
  const Shape& shape = value.handle.shape();
  const Tensor whole = value.draw || runs.empty() ? Tensor() : replayed(value);
  const std::int64_t row = value.zero_rows.empty() ? 0 : shape.numel() / shape[0];
  for (const ElementRun& run : runs) {
    if (value.draw)
      draw_run(*value.draw, value.key, value.site, shape.numel(), run, piece);
    else
      copy_run(whole, run, piece);
    for (const std::int64_t zero : value.zero_rows) clear_within(run, zero * row, row, piece);
  }
}

void DeferredWeights::fill(const Tensor& tensor, std::span<const ElementRun> runs, const Tensor& piece) {
  const Value& begins = value(tensor);
  made_whole_ += begins.draw ? 0 : 1;
  write(begins, runs, piece);
  values_.erase(tensor.impl());
}

Tensor DeferredWeights::made_on(const Value& value, Device device) {
  const Shape& shape = value.handle.shape();
  const ElementRun all{.whole = 0, .part = 0, .count = shape.numel()};
  const bool by_place = value.draw && value.draw->kind != Draw::Kind::constant && value.zero_rows.empty();
  if (device.kind == DeviceKind::cuda && by_place && all.count > 0) {
    const Tensor there = empty(shape, DType::f32, device);
    draw_run(*value.draw, starling::to(value.key, device), value.site, all.count, all, there);
    return there;
  }
  const Tensor whole = empty(shape, DType::f32);
  if (all.count > 0) write(value, {&all, 1}, whole);
  return starling::to(whole, device);
}

void DeferredWeights::make(const Tensor& tensor, Device device) {
  const Tensor whole = made_on(value(tensor), device);
  tensor.impl()->storage = whole.impl()->storage;
  tensor.impl()->offset = whole.impl()->offset;
  tensor.impl()->device = device;
  values_.erase(tensor.impl());
}

void DeferredWeights::make_rest() {
  while (!values_.empty()) make(Tensor(values_.begin()->second.handle));
}

}  // namespace starling::nn
