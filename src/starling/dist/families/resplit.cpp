#include "starling/ops/def/resplit.h"

#include <algorithm>
#include <array>

#include "starling/base/bytes.h"
#include "starling/base/error.h"
#include "starling/dist/comm/comm.h"
#include "starling/kernels/kernel_table.h"

// Kernel of the exchange of pieces along one dimension for pieces along another (ops/families/resplit.cpp). Messages
// are packed one after the other, in rank order. Without a communicator what others would send is zeros.
namespace starling::dist {
namespace {

// Part of a tensor along one dimension, as runs of bytes.
class Strip {
 public:
  Strip(const Shape& shape, int dim, std::size_t element, const std::vector<Piece>& intervals) {
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

  std::int64_t elements() const { return elements_; }
  void pack(const void* tensor, std::byte* message) const {
    for (const auto& [begin, bytes] : runs_) {
      copy_bytes(message, static_cast<const std::byte*>(tensor) + begin, bytes);
      message += bytes;
    }
  }
  void unpack(const std::byte* message, void* tensor) const {
    for (const auto& [begin, bytes] : runs_) {
      copy_bytes(static_cast<std::byte*>(tensor) + begin, message, bytes);
      message += bytes;
    }
  }

 private:
  struct Run {
    std::size_t begin, bytes;
  };
  std::vector<Run> runs_;
  std::int64_t elements_ = 0;
};

// Exchange of this rank: what it sends to each, what it gets from each, and where the messages lie in the scratch.
class Resplit {
 public:
  Resplit(const op::ResplitAttrs& attrs, const Shape& in, const Shape& out, DType dtype)
      : rank_(static_cast<int>(attrs.rank)),
        ranks_(static_cast<int>(attrs.ranks)),
        dtype_(dtype),
        name_(attrs.name.str()),
        even_(attrs.from != attrs.to && out[static_cast<int>(attrs.from)] % (attrs.from_blocks * attrs.ranks) == 0 &&
              in[static_cast<int>(attrs.to)] % (attrs.to_blocks * attrs.ranks) == 0) {
    const std::size_t element = size_of(dtype);
    for (int peer = 0; peer < ranks_; ++peer) {
      sent_.emplace_back(in, static_cast<int>(attrs.to), element, op::intervals_sent(attrs, in, peer));
      received_.emplace_back(out, static_cast<int>(attrs.from), element, op::intervals_received(attrs, out, peer));
      out_at_.push_back(sent_bytes_);
      in_at_.push_back(received_bytes_);
      sent_bytes_ += static_cast<std::size_t>(sent_.back().elements()) * element;
      received_bytes_ += static_cast<std::size_t>(received_.back().elements()) * element;
    }
  }

  std::size_t scratch_bytes() const { return sent_bytes_ + received_bytes_; }

  void run(const kernels::Launch& launch) const {
    auto* outgoing = static_cast<std::byte*>(launch.scratch);
    std::byte* incoming = outgoing + sent_bytes_;
    for (int peer = 0; peer < ranks_; ++peer) at(sent_, peer).pack(launch.in[0], outgoing + at(out_at_, peer));
    exchange(launch.context.comm, outgoing, incoming);
    for (int peer = 0; peer < ranks_; ++peer) at(received_, peer).unpack(incoming + at(in_at_, peer), launch.out[0]);
  }

 private:
  template <class T>
  static const T& at(const std::vector<T>& all, int peer) {
    return all[static_cast<std::size_t>(peer)];
  }

  void exchange(Comm* comm, std::byte* outgoing, std::byte* incoming) const {
    if (!comm) {
      zero_bytes(incoming, received_bytes_);
      return keep(outgoing, incoming);
    }
    check(comm->rank() == rank_ && comm->size() == ranks_,
          "[resplit] expected a communicator in which this is rank {} of {}, got one where it is {} of {}", rank_,
          ranks_, comm->rank(), comm->size());
    if (even_) {
      comm->all_to_all(outgoing, incoming, at(sent_, 0).elements(), dtype_, {.name = name_}).wait();
      return;
    }
    keep(outgoing, incoming);
    send_messages(*comm, outgoing, incoming);
  }

  // Copies the elements that stay on this rank.
  void keep(const std::byte* outgoing, std::byte* incoming) const {
    copy_bytes(incoming + at(in_at_, rank_), outgoing + at(out_at_, rank_),
               static_cast<std::size_t>(at(sent_, rank_).elements()) * size_of(dtype_));
  }

  // Pieces of several sizes: in round k every rank sends to the one k after it and receives from the one k before it.
  // Several rounds are under way at once; a fixed number, so that a step allocates no memory.
  void send_messages(Comm& comm, std::byte* outgoing, std::byte* incoming) const {
    constexpr int kRounds = 8;
    std::array<Work, 2 * kRounds> under_way;
    for (int first = 1; first < ranks_; first += kRounds) {
      const int end = std::min(first + kRounds, ranks_);
      for (int k = first; k < end; ++k) {
        const int next = (rank_ + k) % ranks_, before = (rank_ + ranks_ - k) % ranks_;
        const auto slot = 2 * static_cast<std::size_t>(k - first);
        if (at(received_, before).elements() > 0)
          under_way[slot] = comm.recv(incoming + at(in_at_, before), at(received_, before).elements(), dtype_, before,
                                      {.name = name_});
        if (at(sent_, next).elements() > 0)
          under_way[slot + 1] =
              comm.send(outgoing + at(out_at_, next), at(sent_, next).elements(), dtype_, next, {.name = name_});
      }
      for (Work& work : under_way) std::exchange(work, Work()).wait();
    }
  }

  int rank_, ranks_;
  DType dtype_;
  std::string name_;
  bool even_;                                // all messages have one size
  std::vector<Strip> sent_, received_;       // by peer
  std::vector<std::size_t> out_at_, in_at_;  // by peer: where its message lies
  std::size_t sent_bytes_ = 0, received_bytes_ = 0;
};

std::unique_ptr<kernels::Plan> plan_resplit(const kernels::PlanRequest& request) {
  const Shape &in = request.in[0].shape, &out = request.out[0].shape;
  const Resplit resplit(op::with_size(request.attrs.as<op::ResplitAttrs>(), in), in, out, request.in[0].dtype);
  return kernels::make_plan(resplit.scratch_bytes(), [resplit](const kernels::Launch& launch) { resplit.run(launch); });
}

}  // namespace

void register_dist_resplit(kernels::KernelTable& table) {
  table.add("resplit", DeviceKind::cpu, {"comm", kernels::Accepts::contiguous, plan_resplit});
}

}  // namespace starling::dist
