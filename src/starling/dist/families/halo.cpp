#include "starling/ops/def/sharding/halo.h"

#include <algorithm>

#include "starling/base/bytes.h"
#include "starling/dist/comm/piece_messages.h"
#include "starling/dist/comm/reduce.h"
#include "starling/dist/comm/staging/staged_plan.h"
#include "starling/kernels/reference/element.h"

// Kernels of the exchange of rows at the borders of pieces (ops/families/halo.cpp). Only these rows are packed and
// sent; those that a rank has itself are copied at once. Without a communicator what others would send is zeros.
namespace starling::dist {
namespace {

// Either way of the exchange. `back`: from rows that windows look at to their owners.
class HaloExchange {
 public:
  HaloExchange(const op::HaloAttrs& attrs, const kernels::ArgDesc& in, const kernels::ArgDesc& out, bool back)
      : attrs_(attrs),
        back_(back),
        dtype_(in.dtype),
        bytes_(bytes_of(out)),
        from_(strip(in.shape, back, attrs.rank)),
        to_(strip(out.shape, !back, attrs.rank)),
        messages_(messages_of(in.shape, out.shape)) {}

  std::size_t scratch_bytes() const { return messages_.scratch_bytes(); }

 protected:
  // The rows that this rank shares with a peer, in a tensor of the rows seen or in one of the rows stored.
  Strip strip(const Shape& shape, bool in_seen, std::int64_t peer, bool none = false) const {
    const Piece here = in_seen ? op::rows_seen(attrs_, attrs_.rank) : op::rows_stored(attrs_, attrs_.rank);
    const Piece rows =
        in_seen ? op::rows_shared(attrs_, peer, attrs_.rank) : op::rows_shared(attrs_, attrs_.rank, peer);
    return {shape, static_cast<int>(attrs_.dim), size_of(dtype_), {{rows.begin - here.begin, none ? 0 : rows.size}}};
  }

  PieceMessages messages_of(const Shape& in, const Shape& out) {
    std::vector<std::int64_t> sent, received;
    for (std::int64_t peer = 0; peer < attrs_.ranks; ++peer) {
      sent_.push_back(strip(in, back_, peer, peer == attrs_.rank));
      received_.push_back(strip(out, !back_, peer, peer == attrs_.rank));
      sent.push_back(sent_.back().elements());
      received.push_back(received_.back().elements());
    }
    return {attrs_.name.str(), dtype_, static_cast<int>(attrs_.rank), std::move(sent), std::move(received)};
  }

  // Rows that stay on this rank: runs of both tensors are of one size.
  void keep(const void* in, void* out) const {
    for (std::size_t i = 0; i < from_.runs().size(); ++i)
      copy_bytes(static_cast<std::byte*>(out) + to_.runs()[i].begin,
                 static_cast<const std::byte*>(in) + from_.runs()[i].begin, from_.runs()[i].bytes);
  }

  void exchange(const kernels::Launch& launch) const {
    void* scratch = launch.scratch;
    for (std::size_t peer = 0; peer < sent_.size(); ++peer)
      sent_[peer].pack(launch.in[0], messages_.outgoing(scratch, static_cast<int>(peer)));
    if (Comm* comm = launch.context.comm) {
      messages_.expect_place(*comm, back_ ? "halo_add" : "halo");
      messages_.exchange(*comm, scratch);
    } else {
      zero_bytes(messages_.incoming(scratch, 0), messages_.scratch_bytes() - messages_.sent_bytes());
    }
  }

  op::HaloAttrs attrs_;
  bool back_;
  DType dtype_;
  std::size_t bytes_;                   // of the result
  Strip from_, to_;                     // rows that stay on this rank
  std::vector<Strip> sent_, received_;  // by peer
  PieceMessages messages_;
};

class Halo : public HaloExchange {
 public:
  Halo(const op::HaloAttrs& attrs, const kernels::ArgDesc& in, const kernels::ArgDesc& out)
      : HaloExchange(attrs, in, out, false), outside_(outside_of(attrs, out)) {}

  void run(const kernels::Launch& launch) const {
    for (const Strip::Run& run : outside_.runs()) fill(static_cast<std::byte*>(launch.out[0]) + run.begin, run.bytes);
    keep(launch.in[0], launch.out[0]);
    exchange(launch);
    for (std::size_t peer = 0; peer < received_.size(); ++peer)
      received_[peer].unpack(messages_.incoming(launch.scratch, static_cast<int>(peer)), launch.out[0]);
  }

 private:
  static Strip outside_of(const op::HaloAttrs& a, const kernels::ArgDesc& out) {
    const Piece seen = op::rows_seen(a, a.rank);
    const std::int64_t before = std::clamp<std::int64_t>(-seen.begin, 0, seen.size);
    const std::int64_t after = std::clamp<std::int64_t>(seen.begin + seen.size - a.size, 0, seen.size - before);
    return {out.shape, static_cast<int>(a.dim), size_of(out.dtype), {{0, before}, {seen.size - after, after}}};
  }

  void fill(std::byte* out, std::size_t bytes) const {
    if (attrs_.fill == 0) return zero_bytes(out, bytes);
    for (std::size_t i = 0; i < bytes / size_of(dtype_); ++i)
      kernels::reference::write<double>(dtype_, out, static_cast<std::int64_t>(i), attrs_.fill);
  }

  Strip outside_;
};

class HaloAdd : public HaloExchange {
 public:
  HaloAdd(const op::HaloAttrs& attrs, const kernels::ArgDesc& in, const kernels::ArgDesc& out)
      : HaloExchange(attrs, in, out, true) {}

  // Terms are added in the order of ranks, this one's first.
  void run(const kernels::Launch& launch) const {
    zero_bytes(launch.out[0], bytes_);
    keep(launch.in[0], launch.out[0]);
    exchange(launch);
    for (std::size_t peer = 0; peer < received_.size(); ++peer) {
      const std::byte* message = messages_.incoming(launch.scratch, static_cast<int>(peer));
      for (const Strip::Run& run : received_[peer].runs()) {
        add(static_cast<std::byte*>(launch.out[0]) + run.begin, message, run.bytes);
        message += run.bytes;
      }
    }
  }

 private:
  void add(std::byte* out, const std::byte* term, std::size_t bytes) const {
    const std::size_t element = size_of(dtype_), block = static_cast<std::size_t>(kReduceBlock) * element;
    for (std::size_t at = 0; at < bytes; at += block) {
      const void* sources[] = {out + at, term + at};
      reduce_block(dtype_, ReduceOp::sum, sources, 0, static_cast<std::int64_t>(std::min(block, bytes - at) / element),
                   out + at);
    }
  }
};

template <class Exchange>
std::unique_ptr<kernels::Plan> plan_halo(const kernels::PlanRequest& request) {
  const Exchange halo(request.attrs.as<op::HaloAttrs>(), request.in[0], request.out[0]);
  return kernels::make_plan(halo.scratch_bytes(), [halo](const kernels::Launch& launch) { halo.run(launch); });
}

}  // namespace

void register_dist_halo(kernels::KernelTable& table) {
  add_host_comm_kernel(table, "halo", plan_halo<Halo>);
  add_host_comm_kernel(table, "halo_add", plan_halo<HaloAdd>);
}

}  // namespace starling::dist
