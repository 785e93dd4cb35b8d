#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/piece.h"
#include "starling/ops/api/random.h"
#include "starling/ops/def/attrs/random.h"

namespace starling::kernels {
namespace {

using reference::Piece;
using reference::stream_of;

std::unique_ptr<Plan> plan_bernoulli(const PlanRequest& r) {
  const auto a = r.attrs.as<op::BernoulliAttrs>();
  const Piece piece(a.shape, a.global, a.offset);
  const DType out = r.out[0].dtype, in = r.in.size() > 1 ? r.in[1].dtype : DType::f64;
  return make_plan([=, each = r.in.size() > 1](const Launch& l) {
    const PhiloxStream stream = stream_of(l.in[0], a.site);
    piece.each([&](std::int64_t i, std::uint64_t global) {
      const double p = each ? reference::read<double>(in, l.in[1], i) : a.p;
      check(p >= 0 && p <= 1, "[bernoulli] expected probabilities in [0, 1], got {} at {}", p, i);
      reference::write<double>(out, l.out[0], i, static_cast<double>(philox_uniform(stream, global)) < p ? 1.0 : 0.0);
    });
  });
}

std::unique_ptr<Plan> plan_randint(const PlanRequest& r) {
  const auto a = r.attrs.as<op::RandintAttrs>();
  const Piece piece(a.shape, a.global, a.offset);
  const auto total = static_cast<std::uint64_t>((a.global.empty() ? a.shape : a.global).numel());
  const std::uint64_t bound = static_cast<std::uint64_t>(a.high) - static_cast<std::uint64_t>(a.low);
  return make_plan([=, dtype = r.out[0].dtype](const Launch& l) {
    const PhiloxStream stream = stream_of(l.in[0], a.site);
    piece.each([&](std::int64_t i, std::uint64_t global) {
      const std::uint64_t drawn = static_cast<std::uint64_t>(a.low) + philox_below(stream, global, total, bound);
      reference::write<std::int64_t>(dtype, l.out[0], i, static_cast<std::int64_t>(drawn));
    });
  });
}

struct Categories {
  std::int64_t rows, k, count, first_row;

  template <class T>
  void read_row(const T* weights, std::int64_t row, std::vector<double>& into) const {
    double total = 0;
    for (std::int64_t c = 0; c < k; ++c) {
      const double w = into[static_cast<std::size_t>(c)] = static_cast<double>(weights[row * k + c]);
      check(w >= 0 && std::isfinite(w), "[multinomial] expected finite weights of at least 0, got {} at [{}, {}]", w,
            row, c);
      total += w;
    }
    check(total > 0 && std::isfinite(total), "[multinomial] expected weights of a finite sum above 0, got {} in row {}",
          total, row);
  }

  // Draws with replacement by the inverse of the cumulative sum.
  void replacing(const PhiloxStream& stream, std::int64_t row, std::vector<double>& w, std::int64_t* out) const {
    std::partial_sum(w.begin(), w.end(), w.begin());
    for (std::int64_t i = 0; i < count; ++i) {
      const auto index = static_cast<std::uint64_t>((first_row + row) * count + i);
      const double at = philox_uniform53(stream, index) * w.back();
      const auto found =
          std::min(std::upper_bound(w.begin(), w.end(), at), std::lower_bound(w.begin(), w.end(), w.back()));
      out[i] = found - w.begin();
    }
  }

  // Draws without replacement as a race: category c arrives after an exponential time of rate w; the first arrivals are
  // the draws in order.
  void removing(const PhiloxStream& stream, std::int64_t row, std::vector<double>& w, std::int64_t* out) const {
    std::vector<std::int64_t> order(static_cast<std::size_t>(k));
    std::iota(order.begin(), order.end(), 0);
    std::int64_t possible = 0;
    for (std::int64_t c = 0; c < k; ++c) {
      double& time = w[static_cast<std::size_t>(c)];
      possible += time > 0;
      const double u = philox_uniform53(stream, static_cast<std::uint64_t>((first_row + row) * k + c));
      // Clamped: a tiny weight must not make the time overflow and tie with weights of 0, which never arrive.
      constexpr double kLatest = std::numeric_limits<double>::max();
      time = time > 0 ? std::min(-std::log1p(-u) / time, kLatest) : HUGE_VAL;
    }
    check(possible >= count, "[multinomial] expected at least {} weights above 0 in row {}, got {}", count, row,
          possible);
    std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](auto a, auto b) {
      const double at = w[static_cast<std::size_t>(a)], bt = w[static_cast<std::size_t>(b)];
      return at < bt || (at == bt && a < b);
    });
    std::copy_n(order.begin(), count, out);
  }
};

std::unique_ptr<Plan> plan_multinomial(const PlanRequest& r) {
  const auto a = r.attrs.as<op::MultinomialAttrs>();
  const Shape& weights = r.in[0].shape;
  const Categories categories{weights.rank() == 2 ? weights[0] : 1, weights.back(), a.count,
                              a.offset.empty() ? 0 : a.offset[0]};
  return reference::for_floats(r.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& l) {
      const PhiloxStream stream = stream_of(l.in[1], a.site);
      std::vector<double> w(static_cast<std::size_t>(categories.k));
      for (std::int64_t row = 0; row < categories.rows; ++row) {
        categories.read_row(static_cast<const T*>(l.in[0]), row, w);
        auto* out = static_cast<std::int64_t*>(l.out[0]) + row * a.count;
        if (a.replacement) {
          categories.replacing(stream, row, w, out);
        } else {
          categories.removing(stream, row, w, out);
        }
      }
    });
  });
}

// Fisher-Yates shuffle: the number drawn for position i is the one at index i of the stream.
void permute(const PhiloxStream& stream, std::int64_t n, std::int64_t* order) {
  std::iota(order, order + n, 0);
  for (std::int64_t i = n - 1; i > 0; --i) {
    const auto at = static_cast<std::uint64_t>(i);
    std::swap(order[i], order[philox_below(stream, at, static_cast<std::uint64_t>(n), at + 1)]);
  }
}

std::unique_ptr<Plan> plan_permutation(const PlanRequest& r) {
  const auto a = r.attrs.as<op::PermutationAttrs>();
  return make_plan(
      [a](const Launch& l) { permute(stream_of(l.in[0], a.site), a.n, static_cast<std::int64_t*>(l.out[0])); });
}

std::unique_ptr<Plan> plan_shuffle(const PlanRequest& r) {
  const auto a = r.attrs.as<op::ShuffleAttrs>();
  const Shape x = r.in[0].shape;
  if (x.numel() == 0) return make_plan([](const Launch&) {});
  const int axis = normalize_axis(a.axis, x.rank(), "shuffle");
  std::int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= x[i];
  for (int i = axis + 1; i < x.rank(); ++i) inner *= x[i];
  const std::int64_t n = x[axis], bytes = inner * static_cast<std::int64_t>(size_of(r.in[0].dtype));
  return make_plan(static_cast<std::size_t>(n) * sizeof(std::int64_t), [=](const Launch& l) {
    auto* order = static_cast<std::int64_t*>(l.scratch);
    permute(stream_of(l.in[1], a.site), n, order);
    const auto* from = static_cast<const std::byte*>(l.in[0]);
    auto* to = static_cast<std::byte*>(l.out[0]);
    for (std::int64_t i = 0; i < outer * n; ++i) {
      const std::int64_t whole = i / n * n, other = whole + order[i % n];
      std::memcpy(to + (a.inverse ? other : i) * bytes, from + (a.inverse ? i : other) * bytes,
                  static_cast<std::size_t>(bytes));
    }
  });
}

}  // namespace

void register_reference_random_draws(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan));
  };
  add("bernoulli", plan_bernoulli);
  add("randint", plan_randint);
  add("multinomial", plan_multinomial);
  add("permutation", plan_permutation);
  add("shuffle", plan_shuffle);
}

}  // namespace starling::kernels
