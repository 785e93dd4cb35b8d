#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "starling/dist/comm/comm.h"
#include "starling/ops/def/sharding/sharding.h"
#include "starling/tensor/shape.h"

namespace starling::dist {

// Part of a tensor along one dimension, intervals of it, as runs of bytes.
class Strip {
 public:
  struct Run {
    std::size_t begin, bytes;
  };
  Strip(const Shape& shape, int dim, std::size_t element, const std::vector<Piece>& intervals);

  std::int64_t elements() const { return elements_; }
  const std::vector<Run>& runs() const { return runs_; }
  void pack(const void* tensor, std::byte* message) const;
  void unpack(const std::byte* message, void* tensor) const;

 private:
  std::vector<Run> runs_;
  std::int64_t elements_ = 0;
};

// Messages between all ranks of a communicator, one for each other rank and of any size, packed in rank order into a
// scratch: first those that go out, then those that come in.
class PieceMessages {
 public:
  // Elements by peer; those of the rank itself have a place in the scratch as well, and are not sent.
  PieceMessages(std::string name, DType dtype, int rank, std::vector<std::int64_t> sent,
                std::vector<std::int64_t> received);

  std::size_t sent_bytes() const { return in_at_.empty() ? 0 : in_at_[0]; }
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  std::byte* outgoing(void* scratch, int peer) const { return at(out_at_, scratch, peer); }
  std::byte* incoming(void* scratch, int peer) const { return at(in_at_, scratch, peer); }

  // Throws Error if this is another rank than the one that the messages were planned for, or there are more or fewer.
  void expect_place(const Comm& comm, const char* op) const;
  void exchange(Comm& comm, void* scratch) const;

 private:
  static std::byte* at(const std::vector<std::size_t>& places, void* scratch, int peer) {
    return static_cast<std::byte*>(scratch) + places[static_cast<std::size_t>(peer)];
  }

  std::string name_;
  DType dtype_;
  int rank_, ranks_;
  std::vector<std::int64_t> sent_, received_;  // by peer
  std::vector<std::size_t> out_at_, in_at_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace starling::dist
