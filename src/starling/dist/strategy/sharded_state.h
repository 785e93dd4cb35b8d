#pragma once

#include <unordered_map>
#include <vector>

#include "starling/dist/comm/comm.h"
#include "starling/ops/def/sharding.h"
#include "starling/tensor/tensor.h"

namespace starling::dist {

// Tensors of which a rank stores a piece: its rows, as evenly as possible, in rank order. The handle that the network
// and the optimizer hold keeps the global type, which programs are traced with, and has no memory: eager code that
// reads it is refused by name. The piece is here.
class ShardedState {
 public:
  ShardedState(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  // True for what is worth cutting: matrices and above with at least a row a rank. Vectors are few bytes, and each
  // would cost an exchange of its own.
  bool fits(const Tensor& tensor) const { return tensor.rank() >= 2 && tensor.size(0) >= ranks_; }

  // Keeps this rank's rows of a whole tensor and frees the rest. A tensor that never had memory gets a piece of zeros.
  // Nothing to do for one that is in pieces already.
  void cut(const Tensor& whole);
  // Piece of this rank; null: the tensor is whole here (also one that was cut and is shown).
  const Tensor* piece(const Tensor& tensor) const;
  // Memory of the tensor on this rank: its piece, or itself.
  const Tensor& local(const Tensor& tensor) const;
  // Where the rows of a rank lie in the whole.
  Piece rows(const Tensor& tensor, int rank) const { return piece_of(tensor.size(0), rank, ranks_); }
  // Copies this rank's rows of a whole value of the tensor's type into the piece.
  void put(const Tensor& tensor, const Tensor& value) const;
  void clear(const Tensor& tensor) const;  // piece := 0

  // Whole memory for a while: show() gathers it (collective), hide() frees it. The piece stays the stored value:
  // nothing may be assigned in between.
  void show(const Tensor& tensor, Comm& comm) const;
  void hide(const Tensor& tensor) const;

  bool empty() const { return pieces_.empty(); }

 private:
  struct Entry {
    Tensor handle;
    Tensor piece;
  };
  const Entry* find(const Tensor& tensor) const;

  int rank_, ranks_;
  std::unordered_map<const TensorImpl*, Entry> pieces_;
};

}  // namespace starling::dist
