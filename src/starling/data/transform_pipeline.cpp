#include "starling/data/transform_pipeline.h"

#include <cstring>
#include <utility>

#include "starling/base/error.h"
#include "starling/base/result.h"
#include "starling/data/transform_scratch.h"
#include "starling/tensor/bytes.h"

namespace starling {
namespace {

// Views of fields for `count` samples in one buffer, which grows if needed.
void lay_out(const std::vector<TensorType>& types, std::size_t count, std::vector<std::byte>& buffer,
             std::vector<FieldView>& fields) {
  constexpr std::size_t kAlign = data::kFieldAlign;
  const std::size_t total = data::bytes_of_fields(types, count);
  if (buffer.size() < total) buffer.resize(total);
  auto address = reinterpret_cast<std::uintptr_t>(buffer.data());
  auto* at = buffer.data() + (kAlign - address % kAlign) % kAlign;
  fields.clear();
  for (const auto& type : types) {
    fields.push_back({type, at});
    at += (bytes_of(type) * count + kAlign - 1) / kAlign * kAlign;
  }
}

void advance(std::vector<FieldView>& fields) {
  for (auto& field : fields) field.data += bytes_of(field.type);
}

void views(std::span<const Tensor> tensors, const std::vector<TensorType>& types, std::size_t count,
           std::vector<FieldView>& fields) {
  check(tensors.size() == types.size(), "[transform] expected {} fields, got {}", types.size(), tensors.size());
  fields.clear();
  for (std::size_t f = 0; f < types.size(); ++f) {
    TensorType batch = types[f];
    batch.shape.insert(0, static_cast<std::int64_t>(count));
    if (tensors[f].type() != batch || !tensors[f].contiguous() || tensors[f].device().kind != DeviceKind::cpu) {
      fail("[transform] expected a dense {} on a CPU, got {}", to_string(batch), to_string(tensors[f].type()));
    }
    fields.push_back({types[f], static_cast<std::byte*>(tensors[f].raw())});
  }
}

}  // namespace

TransformPipeline::TransformPipeline(std::vector<TransformStep> steps, std::vector<TensorType> fields)
    : steps_(std::move(steps)) {
  types_.push_back(std::move(fields));
  while (first_batch_step_ < steps_.size() && steps_[first_batch_step_].sample) ++first_batch_step_;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const auto& step = steps_[i];
    check(i < first_batch_step_ || step.batch,
          "[transform] expected transforms of single samples before those that mix a batch, got one at place {} of the "
          "list",
          i + 1);
    auto made =
        attempt([&] { return step.batch ? step.batch->fields(types_.back()) : step.sample->fields(types_.back()); });
    if (!made) fail("[transform] at place {} of the list: {}", i + 1, made.error());
    types_.push_back(std::move(*made));
  }
}

void TransformPipeline::apply(std::span<const Tensor> in, std::span<const Tensor> out, std::span<const SampleKey> keys,
                              Scratch& scratch) const {
  check(!types_.empty(), "[transform] expected a pipeline made for a data set, got one by default");
  auto& from = scratch.from;
  auto& to = scratch.to;
  views(in, types_.front(), keys.size(), from);
  views(out, types_.back(), keys.size(), to);
  if (keys.empty()) return;
  if (steps_.empty()) {
    for (std::size_t f = 0; f < from.size(); ++f)
      std::memcpy(to[f].data, from[f].data, bytes_of(from[f].type) * keys.size());
    return;
  }
  if (!mixes()) {
    apply_to_samples(from, to, keys, scratch);
    return;
  }
  if (first_batch_step_ > 0) {
    lay_out(types_[first_batch_step_], keys.size(), scratch.batch[0], scratch.middle);
    apply_to_samples(from, scratch.middle, keys, scratch);
    std::swap(from, scratch.middle);
  }
  apply_to_batch(from, to, keys, scratch);
}

void TransformPipeline::apply_to_samples(std::span<const FieldView> in, std::span<const FieldView> out,
                                         std::span<const SampleKey> keys, Scratch& scratch) const {
  auto& first = scratch.first;
  auto& last = scratch.last;
  first.assign(in.begin(), in.end());
  last.assign(out.begin(), out.end());
  for (SampleKey key : keys) {
    scratch.in = first;
    for (std::size_t i = 0; i < first_batch_step_; ++i) {
      const bool ends = i + 1 == first_batch_step_;
      if (ends) {
        scratch.out = last;
      } else {
        lay_out(types_[i + 1], 1, scratch.sample[i % 2], scratch.out);
      }
      key.stage = i;
      steps_[i].sample->apply(scratch.in, scratch.out, key);
      std::swap(scratch.in, scratch.out);
    }
    advance(first);
    advance(last);
  }
}

void TransformPipeline::apply_to_batch(std::span<const FieldView> in, std::span<const FieldView> out,
                                       std::span<const SampleKey> keys, Scratch& scratch) const {
  scratch.in.assign(in.begin(), in.end());
  for (std::size_t i = first_batch_step_; i < steps_.size(); ++i) {
    if (i + 1 == steps_.size()) {
      scratch.out.assign(out.begin(), out.end());
    } else {
      lay_out(types_[i + 1], keys.size(), scratch.batch[(i - first_batch_step_ + 1) % 2], scratch.out);
    }
    SampleKey key = keys.front();
    key.stage = i;
    steps_[i].batch->apply(scratch.in, scratch.out, static_cast<std::int64_t>(keys.size()), key);
    std::swap(scratch.in, scratch.out);
  }
}

}  // namespace starling
