#include "starling/train/loop/number_fields.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "starling/base/error.h"
#include "starling/graph/tracer.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/def/apply.h"

namespace starling::train {
namespace {

constexpr double kBytes = 255;

bool has_f64(const nn::Module& net) {
  for (const auto& parameter : net.parameters()) {
    if (parameter.dtype() == DType::f64) return true;
  }
  return false;
}

Tensor as_fractions(const Tensor& bytes) { return div(cast(bytes, DType::f32), kBytes); }

using Fields = std::vector<Tensor>;
using Use = std::function<void(std::span<const Tensor> fields)>;

class NumberFields final : public Objective {
 public:
  explicit NumberFields(ObjectivePtr objective) : objective_(std::move(objective)) {}

  Outputs apply(nn::Module& net, std::span<const Tensor> fields) const override {
    const Fields read =
        converted(net, fields, [&](std::span<const Tensor> in) { static_cast<void>(objective_->apply(net, in)); });
    return objective_->apply(net, read);
  }
  Tensor predict(nn::Module& net, std::span<const Tensor> fields) const override {
    const Fields read =
        converted(net, fields, [&](std::span<const Tensor> in) { static_cast<void>(objective_->predict(net, in)); });
    return objective_->predict(net, read);
  }
  Outputs judge(nn::Module& net, std::span<const Tensor> fields) const override {
    return objective_->judge(net, fields);
  }
  std::vector<std::string> metrics() const override { return objective_->metrics(); }

 private:
  Fields converted(nn::Module& net, std::span<const Tensor> fields, const Use& use) const {
    Fields read(fields.begin(), fields.end());
    const bool wide = has_f64(net);
    for (std::size_t i = 0; i < std::min<std::size_t>(read.size(), 2); ++i) {
      if (read[i].dtype() == DType::f64 && !wide) read[i] = cast(read[i], DType::f32);
    }
    if (!read.empty() && read[0].dtype() == DType::u8 && !takes_bytes(read, use)) read[0] = as_fractions(read[0]);
    return read;
  }

  // Traced beside the program that is being made, with tensors of the same types: what fails leaves nothing behind.
  bool takes_bytes(const Fields& fields, const Use& use) const {
    const std::lock_guard lock(mutex_);
    if (takes_bytes_) return *takes_bytes_;
    Fields like;
    for (const auto& field : fields) like.push_back(empty(field.shape(), field.dtype()));
    try {
      static_cast<void>(graph::trace(
          [&](std::span<const Tensor> in) {
            const NoGrad no_grad;
            use(in);
            return TensorList{};
          },
          like));
      takes_bytes_ = true;
    } catch (const Error&) {
      takes_bytes_ = false;
    }
    return *takes_bytes_;
  }

  ObjectivePtr objective_;
  mutable std::mutex mutex_;
  mutable std::optional<bool> takes_bytes_;
};

}  // namespace

ObjectivePtr reading_numbers(ObjectivePtr objective) { return std::make_shared<NumberFields>(std::move(objective)); }

}  // namespace starling::train
