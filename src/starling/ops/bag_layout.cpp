#include "starling/ops/bag_layout.h"

#include "starling/base/error.h"

namespace starling {

BagLayout bag_layout(const OpDef& op, std::span<const TensorType> in, bool scaled) {
  const TensorType& indices = in[1];
  const int rank = indices.shape.rank();
  check(indices.dtype == DType::i64 && (rank == 1 || rank == 2), "[{}] expected indices i64[n] or i64[b, n], got {}",
        op.name, to_string(indices));
  BagLayout layout{rank == 2 ? indices.shape[0] : 0, indices.shape.numel()};
  std::size_t next = 2;
  if (rank == 1) {
    check(in.size() > 2 && in[2].dtype == DType::i64 && in[2].shape.rank() == 1,
          "[{}] expected offsets i64[b] with indices of one dimension, got {}", op.name,
          in.size() > 2 ? to_string(in[2]) : "none");
    layout.offsets = 2;
    layout.bags = in[2].shape[0];
    next = 3;
  }
  if (scaled && next < in.size()) {
    check(in[next] == TensorType{in[0].dtype, indices.shape}, "[{}] expected per-sample weights of {}, got {}", op.name,
          to_string(TensorType{in[0].dtype, indices.shape}), to_string(in[next]));
    layout.scale = static_cast<int>(next++);
  }
  check(next == in.size(), "[{}] expected {} operands with indices {}, got {}", op.name, next, to_string(indices),
        in.size());
  return layout;
}

}  // namespace starling
