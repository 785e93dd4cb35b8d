#include <algorithm>
#include <array>

#include "starling/base/bytes.h"
#include "starling/base/error.h"
#include "starling/dist/comm/comm.h"
#include "starling/dist/comm/reduce.h"
#include "starling/dist/comm/staging/staged_plan.h"
#include "starling/ops/api/comm.h"

// Kernels of ops whose data differs between ranks (ops/families/rank_pieces.cpp). Without a communicator the rows of
// other ranks are zeros.
namespace starling::dist {
namespace {

void check_rank(const char* op, const Comm& comm, std::int64_t rank, std::int64_t ranks) {
  if (comm.rank() == rank && comm.size() == ranks) return;
  fail("[{}] expected a communicator in which this is rank {} of {}, got one where it is {} of {}", op, rank, ranks,
       comm.rank(), comm.size());
}

std::unique_ptr<kernels::Plan> plan_broadcast(const kernels::PlanRequest& request, const DeviceMemory& memory) {
  const auto a = request.attrs.as<op::RootAttrs>();
  const DType dtype = request.in[0].dtype;
  const auto n = request.in[0].shape.numel();
  const std::size_t bytes = static_cast<std::size_t>(n) * size_of(dtype);
  return kernels::make_plan([=, &memory](const kernels::Launch& launch) {
    Comm* comm = launch.context.comm;
    if (comm || a.root == a.rank)
      memory.enqueue_copy(launch.out[0], launch.in[0], bytes);
    else
      memory.enqueue_zeros(launch.out[0], bytes);
    if (!comm) return;
    check_rank("broadcast", *comm, a.rank, comm->size());
    comm->broadcast(launch.out[0], n, dtype, static_cast<int>(a.root), {.name = a.name.str()}).wait();
  });
}

// All-reduce of which only the root keeps the result.
std::unique_ptr<kernels::Plan> plan_reduce_to_root(const kernels::PlanRequest& request, const DeviceMemory& memory) {
  const auto a = request.attrs.as<op::RootAttrs>();
  const DType dtype = request.in[0].dtype;
  const auto n = request.in[0].shape.numel();
  const std::size_t bytes = static_cast<std::size_t>(n) * size_of(dtype);
  return kernels::make_plan([=, &memory](const kernels::Launch& launch) {
    if (Comm* comm = launch.context.comm) {
      check_rank("reduce_to_root", *comm, a.rank, comm->size());
      comm->all_reduce(launch.in[0], launch.out[0], n, dtype, ReduceOp::sum, {.name = a.name.str()}).wait();
    } else {
      memory.enqueue_copy(launch.out[0], launch.in[0], bytes);
    }
    if (a.root != a.rank) memory.enqueue_zeros(launch.out[0], bytes);
  });
}

// Split of a whole tensor's rows over ranks, in elements.
struct Pieces {
  std::vector<std::int64_t> counts;
  std::int64_t before = 0;  // elements of lower ranks
  std::int64_t own = 0;
  std::int64_t total = 0;

  Pieces(const Shape& whole, const op::PiecesAttrs& a) {
    const std::int64_t row = whole[0] > 0 ? whole.numel() / whole[0] : 0;
    for (std::int64_t r = 0; r < a.ranks; ++r) {
      counts.push_back(row * piece_of(whole[0], static_cast<int>(r), static_cast<int>(a.ranks)).size);
      if (r < a.rank) before += counts.back();
      total += counts.back();
    }
    own = counts[static_cast<std::size_t>(a.rank)];
  }
};

std::unique_ptr<kernels::Plan> plan_all_gather(const kernels::PlanRequest& request, const DeviceMemory& memory) {
  const auto a = request.attrs.as<op::PiecesAttrs>();
  const Pieces pieces(request.out[0].shape, a);
  const DType dtype = request.in[0].dtype;
  const std::size_t size = size_of(dtype);
  return kernels::make_plan([=, &memory](const kernels::Launch& launch) {
    if (Comm* comm = launch.context.comm) {
      check_rank("all_gather", *comm, a.rank, a.ranks);
      // Sent from its place in the result, which other ranks can read directly: program arguments may lie anywhere.
      auto* own = static_cast<std::byte*>(launch.out[0]) + static_cast<std::size_t>(pieces.before) * size;
      memory.enqueue_copy(own, launch.in[0], static_cast<std::size_t>(pieces.own) * size);
      comm->all_gather(own, launch.out[0], pieces.counts, dtype, {.name = a.name.str()}).wait();
      return;
    }
    memory.enqueue_zeros(launch.out[0], static_cast<std::size_t>(pieces.total) * size);
    memory.enqueue_copy(static_cast<std::byte*>(launch.out[0]) + static_cast<std::size_t>(pieces.before) * size,
                        launch.in[0], static_cast<std::size_t>(pieces.own) * size);
  });
}

// All-gathers in flight at once; fixed, so that a step allocates no memory.
constexpr std::size_t kTogether = 16;

// All-gathers the rows of several tensors in place.
std::unique_ptr<kernels::Plan> plan_gather_rows(const kernels::PlanRequest& request, const DeviceMemory& memory) {
  const auto a = request.attrs.as<op::PiecesAttrs>();
  std::vector<Pieces> tensors;
  std::vector<DType> dtypes;
  for (const auto& in : request.in) {
    tensors.emplace_back(in.shape, a);
    dtypes.push_back(in.dtype);
  }
  return kernels::make_plan([=, &memory](const kernels::Launch& launch) {
    Comm* comm = launch.context.comm;
    if (comm) check_rank("gather_rows", *comm, a.rank, a.ranks);
    std::array<Work, kTogether> under_way;
    for (std::size_t first = 0; first < tensors.size(); first += kTogether) {
      const std::size_t end = std::min(first + kTogether, tensors.size());
      for (std::size_t i = first; i < end; ++i) {
        const std::size_t size = size_of(dtypes[i]);
        memory.enqueue_copy(launch.out[i], launch.in[i], static_cast<std::size_t>(tensors[i].total) * size);
        const auto* own =
            static_cast<const std::byte*>(launch.out[i]) + static_cast<std::size_t>(tensors[i].before) * size;
        if (comm)
          under_way[i - first] =
              comm->all_gather(own, launch.out[i], tensors[i].counts, dtypes[i], {.name = a.name.str()});
      }
      for (std::size_t i = first; i < end; ++i) under_way[i - first].wait();
    }
  });
}

std::unique_ptr<kernels::Plan> plan_reduce_scatter(const kernels::PlanRequest& request, const DeviceMemory& memory) {
  const auto a = request.attrs.as<op::PiecesAttrs>();
  const Pieces pieces(request.in[0].shape, a);
  const DType dtype = request.in[0].dtype;
  const ReduceOp reduce = a.reduce;
  return kernels::make_plan([=, &memory](const kernels::Launch& launch) {
    if (Comm* comm = launch.context.comm) {
      check_rank("reduce_scatter", *comm, a.rank, a.ranks);
      comm->reduce_scatter(launch.in[0], launch.out[0], pieces.counts, dtype, reduce, {.name = a.name.str()}).wait();
      return;
    }
    memory.enqueue_copy(
        launch.out[0],
        static_cast<const std::byte*>(launch.in[0]) + static_cast<std::size_t>(pieces.before) * size_of(dtype),
        static_cast<std::size_t>(pieces.own) * size_of(dtype));
  });
}

std::unique_ptr<kernels::Plan> plan_all_to_all(const kernels::PlanRequest& request, const DeviceMemory& memory) {
  const auto a = request.attrs.as<op::PiecesAttrs>();
  const DType dtype = request.in[0].dtype;
  const std::int64_t n = request.in[0].shape.numel(), each = n / a.ranks;
  return kernels::make_plan([=, &memory](const kernels::Launch& launch) {
    if (Comm* comm = launch.context.comm) {
      check_rank("all_to_all", *comm, a.rank, a.ranks);
      comm->all_to_all(launch.in[0], launch.out[0], each, dtype, {.name = a.name.str()}).wait();
      return;
    }
    const std::size_t at = static_cast<std::size_t>(a.rank * each) * size_of(dtype);
    memory.enqueue_zeros(launch.out[0], static_cast<std::size_t>(n) * size_of(dtype));
    memory.enqueue_copy(static_cast<std::byte*>(launch.out[0]) + at, static_cast<const std::byte*>(launch.in[0]) + at,
                        static_cast<std::size_t>(each) * size_of(dtype));
  });
}

// Wire form of several tensors: rank after rank, with the rank's rows of each.
class JoinedRows {
 public:
  JoinedRows(std::span<const kernels::ArgDesc> whole, const op::JoinedPiecesAttrs& a)
      : dtype_(whole[0].dtype), rank_(static_cast<std::size_t>(a.rank)) {
    counts_.resize(static_cast<std::size_t>(a.ranks));
    for (const auto& one : whole) {
      const std::int64_t row = one.shape[0] > 0 ? one.shape.numel() / one.shape[0] : 0;
      auto& parts = tensors_.emplace_back();
      for (std::size_t r = 0; r < counts_.size(); ++r) {
        const Piece piece = piece_of(one.shape[0], static_cast<int>(r), static_cast<int>(a.ranks));
        parts.push_back({bytes_of(piece.begin * row), bytes_of(piece.size * row)});
        counts_[r] += piece.size * row;
        total_ += parts.back().size;
        if (r < rank_) before_ += parts.back().size;
      }
    }
  }

  const std::vector<std::int64_t>& counts() const { return counts_; }
  DType dtype() const { return dtype_; }
  std::size_t ranks() const { return counts_.size(); }
  std::size_t rank() const { return rank_; }
  std::size_t total() const { return total_; }    // bytes
  std::size_t before() const { return before_; }  // bytes of lower ranks

  // Calls with (tensor, its range of the rank) in the order of the wire.
  template <class F>
  void each(std::size_t rank, F&& call) const {
    for (std::size_t i = 0; i < tensors_.size(); ++i) call(i, tensors_[i][rank]);
  }

 private:
  struct Range {
    std::size_t begin, size;
  };
  std::size_t bytes_of(std::int64_t elements) const { return static_cast<std::size_t>(elements) * size_of(dtype_); }

  DType dtype_;
  std::size_t rank_;
  std::vector<std::int64_t> counts_;
  std::vector<std::vector<Range>> tensors_;  // by tensor and rank
  std::size_t total_ = 0, before_ = 0;
};

std::byte* at(void* const* tensors, std::size_t i, std::size_t offset = 0) {
  return static_cast<std::byte*>(tensors[i]) + offset;
}

std::unique_ptr<kernels::Plan> plan_reduce_scatter_many(const kernels::PlanRequest& request,
                                                        const DeviceMemory& memory) {
  const auto a = request.attrs.as<op::JoinedPiecesAttrs>();
  const JoinedRows pieces(request.in, a);
  return kernels::make_plan(pieces.total(), [=, &memory](const kernels::Launch& launch) {
    Comm* comm = launch.context.comm;
    if (!comm) {
      pieces.each(pieces.rank(), [&](std::size_t i, const auto& range) {
        memory.enqueue_copy(launch.out[i], at(launch.in, i, range.begin), range.size);
      });
      return;
    }
    check_rank("reduce_scatter_many", *comm, a.rank, a.ranks);
    auto* wire = static_cast<std::byte*>(launch.scratch);
    for (std::size_t r = 0; r < pieces.ranks(); ++r) {
      pieces.each(r, [&](std::size_t i, const auto& range) {
        memory.enqueue_copy(wire, at(launch.in, i, range.begin), range.size);
        wire += range.size;
      });
    }
    auto* own = static_cast<std::byte*>(launch.scratch) + pieces.before();
    comm->reduce_scatter(launch.scratch, own, pieces.counts(), pieces.dtype(), ReduceOp::sum, {.name = a.name.str()})
        .wait();
    pieces.each(pieces.rank(), [&](std::size_t i, const auto& range) {
      memory.enqueue_copy(launch.out[i], own, range.size);
      own += range.size;
    });
  });
}

std::unique_ptr<kernels::Plan> plan_all_gather_many(const kernels::PlanRequest& request, const DeviceMemory& memory) {
  const auto a = request.attrs.as<op::JoinedPiecesAttrs>();
  const JoinedRows pieces(request.out, a);
  return kernels::make_plan(pieces.total(), [=, &memory](const kernels::Launch& launch) {
    Comm* comm = launch.context.comm;
    auto* const all = static_cast<std::byte*>(launch.scratch);
    if (comm)
      check_rank("all_gather_many", *comm, a.rank, a.ranks);
    else
      memory.enqueue_zeros(all, pieces.total());
    auto* own = all + pieces.before();
    pieces.each(pieces.rank(), [&](std::size_t i, const auto& range) {
      memory.enqueue_copy(own, launch.in[i], range.size);
      own += range.size;
    });
    if (comm)
      comm->all_gather(all + pieces.before(), all, pieces.counts(), pieces.dtype(), {.name = a.name.str()}).wait();
    const auto* wire = all;
    for (std::size_t r = 0; r < pieces.ranks(); ++r) {
      pieces.each(r, [&](std::size_t i, const auto& range) {
        memory.enqueue_copy(at(launch.out, i, range.begin), wire, range.size);
        wire += range.size;
      });
    }
  });
}

}  // namespace

void register_dist_rank_pieces(kernels::KernelTable& table) {
  add_comm_kernel(table, "broadcast", plan_broadcast);
  add_comm_kernel(table, "reduce_to_root", plan_reduce_to_root);
  add_comm_kernel(table, "all_gather", plan_all_gather);
  add_comm_kernel(table, "gather_rows", plan_gather_rows);
  add_comm_kernel(table, "reduce_scatter", plan_reduce_scatter);
  add_comm_kernel(table, "reduce_scatter_many", plan_reduce_scatter_many);
  add_comm_kernel(table, "all_gather_many", plan_all_gather_many);
  add_comm_kernel(table, "all_to_all", plan_all_to_all);
}

}  // namespace starling::dist
