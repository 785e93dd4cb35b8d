#include "starling/ops/def/sharding/resplit.h"

#include "starling/base/bytes.h"
#include "starling/dist/comm/piece_messages.h"
#include "starling/dist/comm/staging/staged_plan.h"

// Kernel of the exchange of pieces along one dimension for pieces along another (ops/families/resplit.cpp). Messages
// are packed one after the other, in rank order. Without a communicator what others would send is zeros.
namespace starling::dist {
namespace {

// Exchange of this rank: what it sends to each, and what it gets from each.
class Resplit {
 public:
  Resplit(const op::ResplitAttrs& attrs, const Shape& in, const Shape& out, DType dtype)
      : rank_(static_cast<int>(attrs.rank)),
        dtype_(dtype),
        name_(attrs.name.str()),
        even_(attrs.from != attrs.to && out[static_cast<int>(attrs.from)] % (attrs.from_blocks * attrs.ranks) == 0 &&
              in[static_cast<int>(attrs.to)] % (attrs.to_blocks * attrs.ranks) == 0),
        messages_(messages_of(attrs, in, out)) {}

  std::size_t scratch_bytes() const { return messages_.scratch_bytes(); }

  void run(const kernels::Launch& launch) const {
    void* scratch = launch.scratch;
    for (int peer = 0; peer < ranks(); ++peer) at(sent_, peer).pack(launch.in[0], messages_.outgoing(scratch, peer));
    exchange(launch.context.comm, scratch);
    for (int peer = 0; peer < ranks(); ++peer)
      at(received_, peer).unpack(messages_.incoming(scratch, peer), launch.out[0]);
  }

 private:
  static const Strip& at(const std::vector<Strip>& all, int peer) { return all[static_cast<std::size_t>(peer)]; }
  int ranks() const { return static_cast<int>(sent_.size()); }

  PieceMessages messages_of(const op::ResplitAttrs& attrs, const Shape& in, const Shape& out) {
    const std::size_t element = size_of(dtype_);
    std::vector<std::int64_t> sent, received;
    for (int peer = 0; peer < static_cast<int>(attrs.ranks); ++peer) {
      sent_.emplace_back(in, static_cast<int>(attrs.to), element, op::intervals_sent(attrs, in, peer));
      received_.emplace_back(out, static_cast<int>(attrs.from), element, op::intervals_received(attrs, out, peer));
      sent.push_back(sent_.back().elements());
      received.push_back(received_.back().elements());
    }
    return {name_, dtype_, rank_, std::move(sent), std::move(received)};
  }

  void exchange(Comm* comm, void* scratch) const {
    std::byte *outgoing = messages_.outgoing(scratch, 0), *incoming = messages_.incoming(scratch, 0);
    if (!comm) {
      zero_bytes(incoming, messages_.scratch_bytes() - messages_.sent_bytes());
      return keep(scratch);
    }
    messages_.expect_place(*comm, "resplit");
    if (even_) {
      comm->all_to_all(outgoing, incoming, at(sent_, 0).elements(), dtype_, {.name = name_}).wait();
      return;
    }
    keep(scratch);
    messages_.exchange(*comm, scratch);
  }

  // Copies the elements that stay on this rank.
  void keep(void* scratch) const {
    copy_bytes(messages_.incoming(scratch, rank_), messages_.outgoing(scratch, rank_),
               static_cast<std::size_t>(at(sent_, rank_).elements()) * size_of(dtype_));
  }

  int rank_;
  DType dtype_;
  std::string name_;
  bool even_;                           // all messages have one size
  std::vector<Strip> sent_, received_;  // by peer
  PieceMessages messages_;
};

std::unique_ptr<kernels::Plan> plan_resplit(const kernels::PlanRequest& request) {
  const Shape &in = request.in[0].shape, &out = request.out[0].shape;
  const Resplit resplit(op::with_size(request.attrs.as<op::ResplitAttrs>(), in), in, out, request.in[0].dtype);
  return kernels::make_plan(resplit.scratch_bytes(), [resplit](const kernels::Launch& launch) { resplit.run(launch); });
}

}  // namespace

void register_dist_resplit(kernels::KernelTable& table) { add_host_comm_kernel(table, "resplit", plan_resplit); }

}  // namespace starling::dist
