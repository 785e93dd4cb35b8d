#include "starling/dist/ps/shard.h"

#include <algorithm>

#include "starling/base/bytes.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/apply.h"
#include "starling/tensor/bytes.h"

namespace starling::dist::ps {
namespace {

std::int64_t row_bytes(const TensorType& type) {
  const auto rows = std::max<std::int64_t>(type.shape[0], 1);
  return static_cast<std::int64_t>(starling::bytes_of(type)) / rows;
}

// Memory of a peer need not be aligned.
std::vector<std::int64_t> numbers_of(const Bytes& rows) {
  std::vector<std::int64_t> numbers(rows.size / sizeof(std::int64_t));
  copy_bytes(numbers.data(), rows.data, numbers.size() * sizeof(std::int64_t));
  return numbers;
}

}  // namespace

Shard::Shard(const ServedTensor& tensor, const TensorType& piece, const optim::OptimizerMaker& optimizer)
    : type_(piece), weights_(zeros(piece.shape, piece.dtype)) {
  weights_.set_name(tensor.name);
  if (!optimizer) {
    program_.emplace(
        [this](std::span<const Tensor> in) {
          assign(weights_, starling::add(weights_, in[0]));
          return TensorList{};
        },
        CompileOptions{});
    return;
  }
  weights_.set_requires_grad();
  optimizer_ =
      optimizer({{.parameters = {weights_}, .lr_scale = tensor.lr_scale, .weight_decay = tensor.weight_decay}});
  program_.emplace(
      [this](std::span<const Tensor> in) {
        weights_.set_grad(in[0]);
        optimizer_->step();
        return TensorList{};
      },
      CompileOptions{});
  if (piece != tensor.type) norm_rule_ = norm_rule_of(*optimizer_, tensor.lr_scale);
}

// Memory of a peer as a tensor; copied only if it is not aligned for its elements.
Tensor Shard::tensor_over(const Bytes& bytes, const TensorType& type) const {
  if (bytes.size == 0) return empty(type.shape, type.dtype);
  if (reinterpret_cast<std::uintptr_t>(bytes.data) % size_of(type.dtype) != 0) {
    Tensor copy = empty(type.shape, type.dtype);
    copy_bytes(copy.raw(), bytes.data, bytes.size);
    return copy;
  }
  auto* data = const_cast<std::byte*>(bytes.data);
  return from_storage(Ref<Storage>(new Storage(
                          kCpu, data, bytes.size, [owner = bytes.owner](void*) {}, true)),
                      type.dtype, type.shape);
}

Result<void> Shard::accepts(const Bytes& rows, const Bytes& values) const {
  if (rows.data == nullptr && rows.owner == nullptr) {
    if (values.size == starling::bytes_of(type_)) return {};
    return failure("expected {} bytes for {}, got {}", starling::bytes_of(type_), to_string(type_), values.size);
  }
  if (type_.shape.rank() == 0) return failure("expected a whole gradient for {}, got rows", to_string(type_));
  const auto numbers = numbers_of(rows);
  if (rows.size % sizeof(std::int64_t) != 0 ||
      values.size != numbers.size() * static_cast<std::size_t>(row_bytes(type_)))
    return failure("expected rows of {} bytes each, got {} bytes for {} rows", row_bytes(type_), values.size,
                   numbers.size());
  for (const std::int64_t row : numbers) {
    if (row < 0 || row >= type_.shape[0]) return failure("expected rows in [0, {}), got {}", type_.shape[0], row);
  }
  return {};
}

void Shard::put(const Bytes& values) {
  part();
  copy_bytes(weights_.raw(), values.data, values.size);
  vectors_.forget_rounds();  // a run begins
  ++version_;
}

// The program updates in place: weights that a reader still holds are left to it.
void Shard::part() {
  if (snapshot_.expired()) return;
  TensorImpl& impl = *weights_.impl();
  Ref<Storage> fresh(new Storage(kCpu, starling::bytes_of(type_)));
  copy_bytes(fresh->data(), weights_.raw(), starling::bytes_of(type_));
  impl.storage = std::move(fresh);
  impl.offset = 0;
  snapshot_.reset();
}

Bytes Shard::weights() {
  auto owner = snapshot_.lock();
  if (!owner) snapshot_ = owner = std::make_shared<const Ref<Storage>>(weights_.impl()->storage);
  return {owner, static_cast<const std::byte*>(weights_.raw()), starling::bytes_of(type_)};
}

Bytes Shard::rows(const Bytes& numbers) {
  const auto width = row_bytes(type_);
  const auto asked = numbers_of(numbers);
  const auto copy = std::make_shared<std::vector<std::byte>>(asked.size() * static_cast<std::size_t>(width));
  const auto* from = static_cast<const std::byte*>(weights_.raw());
  for (std::size_t i = 0; i < asked.size(); ++i)
    copy_bytes(copy->data() + static_cast<std::int64_t>(i) * width, from + asked[i] * width, width);
  return {copy, copy->data(), copy->size()};
}

Tensor Shard::gradient_of(const Push& push) const {
  if (push.rows.owner == nullptr) return tensor_over(push.values, type_);
  const auto count = static_cast<std::int64_t>(push.rows.size / sizeof(std::int64_t));
  Shape values = type_.shape;
  values[0] = count;
  return row_sparse(tensor_over(push.rows, {DType::i64, {count}}), tensor_over(push.values, {type_.dtype, values}),
                    type_.shape);
}

Tensor Shard::mean_of(const Step& pushes) const {
  if (pushes.size() == 1) return gradient_of(pushes[0]);
  double all = 0;
  for (const auto& push : pushes) all += push.weight;
  if (std::ranges::all_of(pushes, [](const Push& push) { return push.rows.owner != nullptr; }))
    return rows_of_mean(pushes, all);
  Tensor sum;
  for (const auto& push : pushes) {
    const Tensor term = mul(dense(gradient_of(push)), push.weight / all);
    sum = sum.defined() ? starling::add(sum, term) : term;
  }
  return sum;
}

// Rows that several workers have pushed are one step.
Tensor Shard::rows_of_mean(const Step& pushes, double all) const {
  TensorList rows, values;
  for (const auto& push : pushes) {
    const Tensor one = gradient_of(push);
    rows.push_back(rows_of(one));
    values.push_back(mul(row_values(one), push.weight / all));
  }
  return coalesce(row_sparse(concat(rows), concat(values), type_.shape));
}

void Shard::apply(const Tensor& gradient) {
  if (is_row_sparse(gradient)) {
    weights_.set_grad(gradient);
    optimizer_->step();
    return;
  }
  const Tensor in[] = {gradient};
  program_->call(in);
}

void Shard::add(const Step& pushes) {
  for (const auto& push : pushes) {
    const Tensor in[] = {dense(gradient_of(push))};
    program_->call(in);
  }
}

void Shard::take_rate(const Step& pushes) {
  const double lr = pushes.back().lr;
  if (optimizer_ && lr >= 0 && lr != lr_) optimizer_->set_lr(lr_ = lr);
}

void Shard::step(const Step& pushes) {
  part();
  const NoGrad no_grad;
  take_rate(pushes);
  if (optimizer_)
    apply(mean_of(pushes));
  else
    add(pushes);
  ++version_;
}

NormSums Shard::measure(const Step& pushes) {
  const NoGrad no_grad;
  return norm_rule_->measure(dense(mean_of(pushes)));
}

void Shard::step(const Step& pushes, const NormSums& whole) {
  part();
  const NoGrad no_grad;
  take_rate(pushes);
  norm_rule_->apply(dense(mean_of(pushes)), whole);
  ++version_;
}

double Shard::command(VectorOp op, int a, int b, double alpha) {
  if (a == 0 && op < VectorOp::sum_abs) {
    part();
    ++version_;
  }
  const Tensor x = vectors_.at(a, weights_);
  switch (op) {
    case VectorOp::zero:
      vectors_.forget_portions(a, static_cast<std::int64_t>(alpha));
      vector_fill(x, 0);
      return 0;
    case VectorOp::copy: copy_into(x, vectors_.at(b, weights_)); return 0;
    case VectorOp::scale: vector_scale(x, alpha); return 0;
    case VectorOp::axpy: vector_axpy(x, alpha, vectors_.at(b, weights_)); return 0;
    case VectorOp::pseudo_gradient: vector_pseudo_gradient(x, alpha, weights_, vectors_.at(b, weights_)); return 0;
    case VectorOp::fill_zeros: vector_fill_zeros(x, vectors_.at(b, weights_)); return 0;
    case VectorOp::project_orthant: vector_project_orthant(x, vectors_.at(b, weights_)); return 0;
    case VectorOp::sum_abs: return vector_sum_abs(x);
    case VectorOp::dot: return vector_dot(x, vectors_.at(b, weights_));
  }
  return 0;
}

bool Shard::add_portion(int vector, std::int64_t portion, const Push& push) {
  return vectors_.add_portion(vector, portion, push.weight, dense(gradient_of(push)));
}

std::vector<NamedTensor> Shard::state() const {
  std::vector<NamedTensor> all{{weights_.name(), weights_}};
  if (!optimizer_) return all;
  for (const auto& [name, tensor] : optimizer_->state()) all.push_back({name, tensor});
  return all;
}

void Shard::put_state(std::size_t place, const Bytes& values) {
  if (place == 0) return put(values);
  const auto all = state();
  const auto& [name, tensor] = all.at(place);
  copy_bytes(tensor.raw(), values.data, values.size);
  if (!name.ends_with(".lr") || tensor.rank() != 0) return;
  lr_ = tensor.item();
  optimizer_->set_lr(lr_);
}

}  // namespace starling::dist::ps
