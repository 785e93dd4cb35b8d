#include "starling/ops/def/bag_operands.h"

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/attrs/embedding.h"
#include "starling/ops/def/rules.h"

namespace starling {

op::BagOperands bag_operands(const OpDef& op, std::span<const TensorType> in, bool scaled) {
  const TensorType& indices = in[1];
  const int rank = indices.shape.rank();
  check(indices.dtype == DType::i64 && (rank == 1 || rank == 2), "[{}] expected indices i64[n] or i64[b, n], got {}",
        op.name, to_string(indices));
  op::BagOperands operands{rank == 2 ? indices.shape[0] : 0, indices.shape.numel()};
  std::size_t next = 2;
  if (rank == 1) {
    check(in.size() > 2 && in[2].dtype == DType::i64 && in[2].shape.rank() == 1,
          "[{}] expected offsets i64[b] with indices of one dimension, got {}", op.name,
          in.size() > 2 ? to_string(in[2]) : "none");
    operands.offsets = 2;
    operands.bags = in[2].shape[0];
    next = 3;
  }
  if (scaled && next < in.size()) {
    check(in[next] == TensorType{in[0].dtype, indices.shape}, "[{}] expected per-sample weights of {}, got {}", op.name,
          to_string(TensorType{in[0].dtype, indices.shape}), to_string(in[next]));
    operands.scale = static_cast<int>(next++);
  }
  check(next == in.size(), "[{}] expected {} operands with indices {}, got {}", op.name, next, to_string(indices),
        in.size());
  return operands;
}

namespace bags {

Shape with_rows(std::int64_t rows, const Shape& like) {
  Shape shape = like;
  shape[0] = rows;
  return shape;
}

void expect_rows(const InferCall& call) {
  rules::expect_float(call);
  check(call.in[0].shape.rank() > 0, "[{}] expected rows, got {}", call.op.name, to_string(call.in[0]));
}

void expect_no_scaled_mean(const InferCall& call, const op::BagOperands& operands, bool mean) {
  check(!mean || operands.scale < 0, "[{}] expected per-sample weights with sums only, got a mean", call.op.name);
}

TensorList operands(const Tensor& x, const GradCall& c, bool scaled) {
  TensorList in{x};
  for (std::size_t i = 1; i < c.in.size(); ++i) {
    if (scaled || i == 1 || c.in[i].dtype() == DType::i64) in.push_back(c.in[i]);
  }
  return in;
}

int scale_operand(const GradCall& c) {
  return c.in.size() > 2 && is_float(c.in.back().dtype()) ? static_cast<int>(c.in.size()) - 1 : -1;
}

Tensor row_dots(const Tensor& a, const Tensor& b, const Shape& shape) {
  const Tensor product = mul(a, b);
  Shape axes;
  for (int i = 1; i < product.rank(); ++i) axes.push_back(i);
  return reshape(axes.empty() ? product : sum(product, {.axes = axes}), shape);
}

OpCase sample(const Shape& x, const Shape& indices, std::int64_t high, const Attrs& attrs, std::int64_t bags,
              bool scaled, bool distinct) {
  OpCase c{{{.shape = x, .distinct = distinct},
            {.shape = indices, .low = 0, .high = static_cast<double>(high), .dtype = DType::i64}},
           attrs};
  if (indices.rank() == 1) {
    c.in.push_back({.shape = {bags},
                    .low = 0,
                    .high = static_cast<double>(indices[0]) + 0.5,
                    .dtype = DType::i64,
                    .ascending = true});
  }
  if (scaled) c.in.push_back({.shape = indices});
  return c;
}

}  // namespace bags

}  // namespace starling
