#include "starling/ops/def/sharding/halo.h"

#include "starling/base/bytes.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/moved.h"
#include "starling/kernels/reference/single_rank.h"

// On a single rank: what it has itself of the rows, element by element, and zeros in place of what others would send.
namespace starling::kernels {
namespace {

// Rows of a tensor along a dimension, from `begin` of the whole on.
struct Rows {
  Piece rows;
  std::int64_t outer = 1, inner = 1;

  Rows(const Shape& shape, std::int64_t dim, Piece here) : rows(here) {
    for (int d = 0; d < shape.rank(); ++d) (d < dim ? outer : inner) *= d == dim ? 1 : shape[d];
  }
  std::int64_t place(std::int64_t o, std::int64_t row, std::int64_t i) const {
    return (o * rows.size + row - rows.begin) * inner + i;
  }
};

void copy_rows(const Rows& from, const Rows& to, Piece shared, std::size_t element, const void* in, void* out) {
  for (std::int64_t o = 0; o < to.outer; ++o) {
    for (std::int64_t row = shared.begin; row < shared.begin + shared.size; ++row) {
      for (std::int64_t i = 0; i < to.inner; ++i)
        copy_bytes(static_cast<std::byte*>(out) + static_cast<std::size_t>(to.place(o, row, i)) * element,
                   static_cast<const std::byte*>(in) + static_cast<std::size_t>(from.place(o, row, i)) * element,
                   element);
    }
  }
}

void fill_outside(const Rows& to, std::int64_t size, DType dtype, double fill, void* out) {
  for (std::int64_t o = 0; o < to.outer; ++o) {
    for (std::int64_t row = to.rows.begin; row < to.rows.begin + to.rows.size; ++row) {
      if (row >= 0 && row < size) continue;
      for (std::int64_t i = 0; i < to.inner; ++i) reference::write<double>(dtype, out, to.place(o, row, i), fill);
    }
  }
}

std::unique_ptr<Plan> plan_halo(const PlanRequest& request, bool back) {
  const op::HaloAttrs a = request.attrs.as<op::HaloAttrs>();
  const ArgDesc in = request.in[0], out = request.out[0];
  const Piece stored = op::rows_stored(a, a.rank), seen = op::rows_seen(a, a.rank);
  const Rows from(in.shape, a.dim, back ? seen : stored), to(out.shape, a.dim, back ? stored : seen);
  return make_plan([=, shared = op::rows_shared(a, a.rank, a.rank)](const Launch& launch) {
    reference::expect_alone(launch, back ? "halo_add" : "halo");
    zero_bytes(launch.out[0], bytes_of(out));
    if (!back) fill_outside(to, a.size, out.dtype, a.fill, launch.out[0]);
    copy_rows(from, to, shared, size_of(in.dtype), launch.in[0], launch.out[0]);
  });
}

}  // namespace

void register_reference_halo(KernelTable& table) {
  for (const bool back : {false, true})
    table.add(back ? "halo_add" : "halo", DeviceKind::cpu,
              reference::kernel(Accepts::contiguous,
                                [back](const PlanRequest& request) { return plan_halo(request, back); }));
}

}  // namespace starling::kernels
