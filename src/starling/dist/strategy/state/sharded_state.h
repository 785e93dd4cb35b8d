#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "starling/base/function_ref.h"
#include "starling/dist/comm/comm.h"
#include "starling/dist/mesh/layout_choice.h"
#include "starling/dist/mesh/mesh_shape.h"
#include "starling/dist/mesh/region.h"
#include "starling/ops/def/sharding/sharding.h"
#include "starling/tensor/tensor.h"

namespace starling::dist {

// Tensors of which a rank stores a piece. The handle that the network and the optimizer hold keeps the global type,
// which programs are traced with, and has no memory: eager code that reads it is refused by name. The piece is here.
class ShardedState {
 public:
  ShardedState(MeshShape mesh, int rank) : mesh_(std::move(mesh)), rank_(rank) {}

  const MeshShape& mesh() const { return mesh_; }

  // Keeps this rank's piece of a whole tensor and frees the rest. A tensor that never had memory gets a piece of zeros.
  // Nothing to do for one that is in pieces already, or without cuts.
  void cut(const Tensor& whole, const AxisCuts& cuts);
  // As cut(), for a tensor that has no memory and whose piece `fill` makes.
  using FillPiece = FunctionRef<void(const Region& region, const Tensor& piece)>;
  void make(const Tensor& whole, const AxisCuts& cuts, FillPiece fill);
  // Piece of this rank; null: the tensor is whole here (also one that was cut and is shown).
  const Tensor* piece(const Tensor& tensor) const;
  // Memory of the tensor on this rank: its piece, or itself.
  const Tensor& local(const Tensor& tensor) const;
  // How a tensor was cut; empty: it was not.
  const AxisCuts& cuts(const Tensor& tensor) const;
  // Where the piece of a rank lies in the whole.
  Region region(const Tensor& tensor, int rank) const { return region(tensor.shape(), cuts(tensor), rank); }
  Region region(const Shape& whole, const AxisCuts& cuts, int rank) const;
  // Ranks whose pieces make the whole: the first of those that store the same one.
  std::vector<int> owners(const AxisCuts& cuts) const;
  // The first of the ranks that store the same piece as a rank; itself: no other before it does.
  int owner(const AxisCuts& cuts, int rank) const;
  // Copies what is of this rank's piece out of some bytes of a whole value, which begin at an element.
  void put(const Tensor& tensor, std::int64_t first, std::span<const std::byte> bytes) const;
  // Copies this rank's piece out of a whole value of the tensor's type.
  void put(const Tensor& tensor, const Tensor& value) const;
  void clear(const Tensor& tensor) const;  // piece := 0

  // Whole memory for a while: show() gathers it (collective over all ranks of the mesh), hide() frees it. The piece
  // stays the stored value: nothing may be assigned in between.
  void show(const Tensor& tensor, Comm& comm) const;
  void hide(const Tensor& tensor) const;

  bool empty() const { return pieces_.empty(); }
  // True if pieces of some tensor differ in size between ranks of an axis beside `data`.
  bool uneven() const;

 private:
  struct Entry {
    Tensor handle;
    Tensor piece;
    AxisCuts cuts;
  };
  const Entry* find(const Tensor& tensor) const;
  Entry& entry_of(const Tensor& whole, const AxisCuts& cuts);

  MeshShape mesh_;
  int rank_;
  std::unordered_map<const TensorImpl*, Entry> pieces_;
};

}  // namespace starling::dist
