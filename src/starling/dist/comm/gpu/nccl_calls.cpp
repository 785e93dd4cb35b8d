#include "starling/dist/comm/gpu/nccl_calls.h"

#include "starling/base/error.h"
#include "starling/dist/comm/call_checks.h"

namespace starling::dist {
namespace {

bool reduces(CommOp op) { return op == CommOp::all_reduce || op == CommOp::reduce_scatter; }

struct Element {
  NcclType type;
  std::size_t units = 1;  // NCCL elements per element of the dtype
};

// Dtypes without an NCCL counterpart are sent as bytes.
Element element(DType dtype) {
  switch (dtype) {
    case DType::f64: return {NcclType::f64};
    case DType::f32: return {NcclType::f32};
    case DType::f16: return {NcclType::f16};
    case DType::bf16: return {NcclType::bf16};
    case DType::i64: return {NcclType::i64};
    case DType::i32: return {NcclType::i32};
    case DType::i8: return {NcclType::i8};
    case DType::u64: return {NcclType::u64};
    case DType::u32: return {NcclType::u32};
    default: return {NcclType::u8, size_of(dtype)};
  }
}

NcclReduction reduction(ReduceOp reduce) {
  switch (reduce) {
    case ReduceOp::sum: return NcclReduction::sum;
    case ReduceOp::mean: return NcclReduction::mean;
    case ReduceOp::max: return NcclReduction::max;
    case ReduceOp::min: return NcclReduction::min;
    case ReduceOp::product: return NcclReduction::product;
  }
  fail("[nccl] expected a known reduction, got {}", static_cast<int>(reduce));
}

// One call on its way to NCCL.
class Submission {
 public:
  Submission(const NcclApi& api, const Call& call, const NcclTarget& target, Traffic& handed)
      : api_(api), call_(call), target_(target), element_(element(call.dtype)), handed_(handed) {}

  NcclResult run() {
    switch (call_.op) {
      case CommOp::all_reduce: return all_reduce();
      case CommOp::broadcast: return broadcast();
      case CommOp::reduce_scatter: return call_.counts.empty() ? reduce_scatter() : reduce_pieces();
      case CommOp::all_gather: return call_.counts.empty() ? all_gather() : broadcast_pieces();
      case CommOp::all_to_all: return all_to_all();
      case CommOp::gather: return gather();
      case CommOp::scatter: return scatter();
      case CommOp::barrier: return barrier();
      case CommOp::send: return send(call_.send, call_.count, call_.peer);
      case CommOp::recv: return recv(call_.recv, call_.count, call_.peer);
      default: fail("[nccl] expected an operation of NCCL's, got {}", name(call_.op));
    }
  }

 private:
  std::size_t units(std::int64_t count) const { return static_cast<std::size_t>(count) * element_.units; }
  std::size_t bytes(std::int64_t count) const { return static_cast<std::size_t>(count) * size_of(call_.dtype); }
  const std::byte* send_at(std::int64_t offset) const {
    return static_cast<const std::byte*>(call_.send) + bytes(offset);
  }
  std::byte* recv_at(std::int64_t offset) const { return static_cast<std::byte*>(call_.recv) + bytes(offset); }

  // Notes one call of the API and the elements that it reads for, and writes of, other ranks.
  void hands(std::int64_t given, std::int64_t taken) {
    if (target_.world == 1) return;
    handed_.bytes_sent += bytes(given);
    handed_.bytes_received += bytes(taken);
    handed_.messages += given > 0 ? 1 : 0;
    ++handed_.steps;
  }
  // From one rank to all others or, of a reduction, the other way round.
  void fans(bool from_here, std::int64_t count) { hands(from_here ? count : 0, from_here ? 0 : count); }

  NcclResult send(const void* data, std::int64_t count, int peer) {
    if (count == 0) return NcclResult::success;
    if (peer != target_.rank) hands(count, 0);
    return api_.send(data, units(count), element_.type, peer, target_.comm, target_.stream);
  }
  NcclResult recv(void* data, std::int64_t count, int peer) {
    if (count == 0) return NcclResult::success;
    if (peer != target_.rank) hands(0, count);
    return api_.recv(data, units(count), element_.type, peer, target_.comm, target_.stream);
  }

  NcclResult all_reduce() {
    if (call_.count == 0) return NcclResult::success;
    hands(call_.count, call_.count);
    return api_.all_reduce(call_.send, call_.recv, units(call_.count), element_.type, reduction(call_.reduce),
                           target_.comm, target_.stream);
  }

  NcclResult broadcast() {
    if (call_.count == 0) return NcclResult::success;
    fans(call_.peer == target_.rank, call_.count);
    return api_.broadcast(call_.send, call_.recv, units(call_.count), element_.type, call_.peer, target_.comm,
                          target_.stream);
  }

  NcclResult reduce_scatter() {
    if (call_.count == 0) return NcclResult::success;
    hands(call_.count * target_.world, call_.count);
    return api_.reduce_scatter(call_.send, call_.recv, units(call_.count), element_.type, reduction(call_.reduce),
                               target_.comm, target_.stream);
  }

  NcclResult all_gather() {
    if (call_.count == 0) return NcclResult::success;
    hands(call_.count, call_.count * target_.world);
    return api_.all_gather(call_.send, call_.recv, units(call_.count), element_.type, target_.comm, target_.stream);
  }

  // Uneven pieces: one reduction, or one broadcast, per owner, since NCCL's own collectives need pieces of equal size.
  NcclResult reduce_pieces() {
    return for_pieces([&](int owner, std::int64_t offset, std::int64_t count) {
      fans(owner != target_.rank, count);
      return api_.reduce(send_at(offset), owner == target_.rank ? call_.recv : nullptr, units(count), element_.type,
                         reduction(call_.reduce), owner, target_.comm, target_.stream);
    });
  }

  NcclResult broadcast_pieces() {
    return for_pieces([&](int owner, std::int64_t offset, std::int64_t count) {
      fans(owner == target_.rank, count);
      const void* from = owner == target_.rank ? call_.send : recv_at(offset);
      return api_.broadcast(from, recv_at(offset), units(count), element_.type, owner, target_.comm, target_.stream);
    });
  }

  template <class Piece>
  NcclResult for_pieces(Piece piece) {
    for (int owner = 0; owner < target_.world; ++owner) {
      const std::int64_t count = piece_length(call_, owner);
      if (count == 0) continue;
      const NcclResult result = piece(owner, piece_offset(call_, owner), count);
      if (result != NcclResult::success && result != NcclResult::in_progress) return result;
    }
    return NcclResult::success;
  }

  NcclResult all_to_all() {
    if (call_.count == 0) return NcclResult::success;
    for (int peer = 0; peer < target_.world; ++peer) {
      NcclResult result = send(send_at(peer * call_.count), call_.count, peer);
      if (ok(result)) result = recv(recv_at(peer * call_.count), call_.count, peer);
      if (!ok(result)) return result;
    }
    return NcclResult::success;
  }

  // Root's own piece is sent and received like the others'.
  NcclResult gather() {
    NcclResult result = send(call_.send, piece_length(call_, target_.rank), call_.peer);
    if (!ok(result) || target_.rank != call_.peer) return result;
    return for_pieces(
        [&](int from, std::int64_t offset, std::int64_t count) { return recv(recv_at(offset), count, from); });
  }

  NcclResult scatter() {
    NcclResult result = recv(call_.recv, piece_length(call_, target_.rank), call_.peer);
    if (!ok(result) || target_.rank != call_.peer) return result;
    return for_pieces(
        [&](int to, std::int64_t offset, std::int64_t count) { return send(send_at(offset), count, to); });
  }

  NcclResult barrier() {
    return api_.all_reduce(target_.word, target_.word, 1, NcclType::i32, NcclReduction::max, target_.comm,
                           target_.stream);
  }

  static bool ok(NcclResult result) { return result == NcclResult::success || result == NcclResult::in_progress; }

  const NcclApi& api_;
  const Call& call_;
  const NcclTarget& target_;
  const Element element_;
  Traffic& handed_;
};

}  // namespace

void check_type(const Call& call) {
  if (!reduces(call.op)) return;
  if (size_of(call.dtype) == 2 && !is_float(call.dtype)) {
    fail("[{}] expected a dtype that NCCL reduces, got {}: convert to i32", name(call.op), name(call.dtype));
  }
}

NcclResult submit_nccl(const NcclApi& api, const Call& call, const NcclTarget& target, Traffic& handed) {
  return Submission(api, call, target, handed).run();
}

}  // namespace starling::dist
