#pragma once

#include <functional>
#include <vector>

#include "starling/dist/comm/call.h"
#include "starling/dist/comm/traffic_table.h"

namespace starling::dist {

// Reads and writes of one rank in a collective, part by part: part c is the elements [c W, (c + 1) W) of every piece
// that ranks exchange, W being the width. A small operation is one part. Each rank's source is either its whole buffer
// or the image of one part, made by stage().
//
// Sums cut into parts take two phases: each rank reduces its share of the part, then copies the others' shares.
//
// A tally is told what this rank reads of the others' data. Staging is no traffic: it copies a rank's own data.
class Pieces {
 public:
  // Arguments are kept by reference. operands: scratch space. shards: per rank, for sum_shards only.
  Pieces(const Call& call, int rank, int world, std::vector<const void*>& operands,
         std::span<const std::uint32_t> shards);

  // Bytes that `rank` contributes and receives; 0 if its buffer is not used.
  static std::size_t source_bytes(const Call& call, int rank, int world);
  static std::size_t target_bytes(const Call& call, int rank, int world);

  // Widest part whose image fits into `bytes`; at least one element.
  std::int64_t width_within(std::size_t bytes) const;
  void set_width(std::int64_t width) { width_ = width; }
  std::int64_t parts() const;
  bool two_phases() const { return call_.op == CommOp::all_reduce || call_.op == CommOp::sum_shards; }

  // Writes this rank's image of a part, leaving out data that only this rank itself would read.
  void stage(std::int64_t part, std::byte* image) const;

  struct Source {
    const std::byte* data = nullptr;
    bool image = false;  // image of the part; else the whole buffer
  };
  using Sources = std::span<const Source>;  // by rank; this rank's own entry is ignored

  // One-phase operations: writes this rank's result of a part. For sums every rank reduces the whole part.
  void take(std::int64_t part, Sources sources, PieceTally& tally) const;

  // First phase: reduces this rank's share into `result` (the image of a part) and into its receive buffer.
  void reduce_share(std::int64_t part, Sources sources, std::byte* result, PieceTally& tally) const;
  // Second phase: copies the others' shares.
  void take_shares(std::int64_t part, const std::byte* result, PieceTally& tally) const;

 private:
  struct Range {
    std::int64_t begin, end;  // in elements
    std::int64_t count() const { return end - begin; }
  };
  bool personal() const;  // true if ranks send a piece to every rank
  std::int64_t longest() const;
  std::int64_t offset(int rank) const;
  std::int64_t length(int rank) const;
  Range range(std::int64_t part, std::int64_t length) const;
  Range share(const Range& whole, int rank) const;
  const std::byte* from(Sources sources, int rank, std::int64_t part, int to) const;
  bool ends_share(std::int64_t part, int rank) const;
  void reduce(std::int64_t part, Sources sources, const Range& range, std::byte* first, std::byte* second, bool ended,
              PieceTally& tally) const;
  struct Span {
    std::int64_t begin, count;  // elements of the receive buffer
    bool ended;                 // the last of what comes from that rank in this phase
    int phase = 0;
  };
  void copy(int source, const Span& to, const std::byte* from, PieceTally& tally) const;

  const Call& call_;
  const int rank_, world_;
  std::span<const std::uint32_t> shards_;
  const std::int64_t size_;
  std::int64_t width_ = 0;
  std::vector<const void*>& operands_;
};

}  // namespace starling::dist
