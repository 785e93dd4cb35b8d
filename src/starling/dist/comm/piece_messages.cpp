#include "starling/dist/comm/piece_messages.h"

#include <algorithm>
#include <array>

#include "starling/base/bytes.h"
#include "starling/base/error.h"

namespace starling::dist {

Strip::Strip(const Shape& shape, int dim, std::size_t element, const std::vector<Piece>& intervals) {
  if (shape.numel() == 0) return;
  std::int64_t outer = 1;
  for (int d = 0; d < dim; ++d) outer *= shape[d];
  const std::int64_t after = shape.numel() / outer / shape[dim];
  for (std::int64_t o = 0; o < outer; ++o) {
    for (const Piece& one : intervals) {
      if (one.size == 0) continue;
      const std::int64_t begin = (o * shape[dim] + one.begin) * after;
      runs_.push_back(
          {static_cast<std::size_t>(begin) * element, static_cast<std::size_t>(one.size * after) * element});
      elements_ += one.size * after;
    }
  }
}

void Strip::pack(const void* tensor, std::byte* message) const {
  for (const auto& [begin, bytes] : runs_) {
    copy_bytes(message, static_cast<const std::byte*>(tensor) + begin, bytes);
    message += bytes;
  }
}

void Strip::unpack(const std::byte* message, void* tensor) const {
  for (const auto& [begin, bytes] : runs_) {
    copy_bytes(static_cast<std::byte*>(tensor) + begin, message, bytes);
    message += bytes;
  }
}

PieceMessages::PieceMessages(std::string name, DType dtype, int rank, std::vector<std::int64_t> sent,
                             std::vector<std::int64_t> received)
    : name_(std::move(name)),
      dtype_(dtype),
      rank_(rank),
      ranks_(static_cast<int>(sent.size())),
      sent_(std::move(sent)),
      received_(std::move(received)) {
  const auto place = [&](const std::vector<std::int64_t>& messages, std::vector<std::size_t>& places) {
    for (const std::int64_t elements : messages) {
      places.push_back(scratch_bytes_);
      scratch_bytes_ += static_cast<std::size_t>(elements) * size_of(dtype_);
    }
  };
  place(sent_, out_at_);
  place(received_, in_at_);
}

void PieceMessages::expect_place(const Comm& comm, const char* op) const {
  check(comm.rank() == rank_ && comm.size() == ranks_,
        "[{}] expected a communicator in which this is rank {} of {}, got one where it is {} of {}", op, rank_, ranks_,
        comm.rank(), comm.size());
}

// In round k every rank sends to the one k after it and receives from the one k before it. Several rounds are under way
// at once; a fixed number, so that a step allocates no memory.
void PieceMessages::exchange(Comm& comm, void* scratch) const {
  constexpr int kRounds = 8;
  const auto elements = [](const std::vector<std::int64_t>& messages, int peer) {
    return messages[static_cast<std::size_t>(peer)];
  };
  std::array<Work, 2 * kRounds> under_way;
  for (int first = 1; first < ranks_; first += kRounds) {
    const int end = std::min(first + kRounds, ranks_);
    for (int k = first; k < end; ++k) {
      const int next = (rank_ + k) % ranks_, before = (rank_ + ranks_ - k) % ranks_;
      const auto slot = static_cast<std::size_t>(2 * (k - first));
      if (elements(received_, before) > 0)
        under_way[slot] =
            comm.recv(incoming(scratch, before), elements(received_, before), dtype_, before, {.name = name_});
      if (elements(sent_, next) > 0)
        under_way[slot + 1] = comm.send(outgoing(scratch, next), elements(sent_, next), dtype_, next, {.name = name_});
    }
    for (Work& work : under_way) std::exchange(work, Work()).wait();
  }
}

}  // namespace starling::dist
