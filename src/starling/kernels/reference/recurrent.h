#pragma once

#include <cmath>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/recurrent_steps.h"
#include "starling/kernels/reference/element.h"
#include "starling/ops/def/attrs/rnn.h"

namespace starling::kernels::reference {

// Element (step or slot, row, column) of a sequence with `width` columns; a null sequence is zero everywhere.
template <class T>
struct Sequence {
  T* data;
  std::int64_t batch;
  std::int64_t width;
  std::int64_t at(std::int64_t t, std::int64_t n, std::int64_t j) const { return (t * batch + n) * width + j; }
  double get(std::int64_t t, std::int64_t n, std::int64_t j) const {
    return data ? static_cast<double>(data[at(t, n, j)]) : 0.0;
  }
  void set(std::int64_t t, std::int64_t n, std::int64_t j, double value) const {
    data[at(t, n, j)] = static_cast<T>(value);
  }
  // Copies row n of slot from_t of another sequence to slot t.
  void copy(std::int64_t t, std::int64_t n, const Sequence& from, std::int64_t from_t) const {
    for (std::int64_t j = 0; j < width; ++j) set(t, n, j, from.get(from_t, n, j));
  }
};

// Operands and results of a launch as sequences; an operand without elements is null.
template <class T>
struct Recurrent {
  const Launch& launch;
  RecurrentSteps steps;
  std::span<const std::int64_t> sizes;  // elements of each operand

  Sequence<T> in(std::size_t i, std::int64_t width) const {
    const bool missing = sizes[i] == 0;
    return {missing ? nullptr : static_cast<T*>(launch.in[i]), steps.batch, width};
  }
  Sequence<T> out(std::size_t i, std::int64_t width) const {
    return {static_cast<T*>(launch.out[i]), steps.batch, width};
  }
  // Σ over columns of row · states, for one row of weights [rows, hidden].
  double product(std::size_t weights, std::int64_t row, const Sequence<T>& states, std::int64_t t,
                 std::int64_t n) const {
    const T* w = static_cast<const T*>(launch.in[weights]) + row * steps.hidden;
    double total = 0;
    for (std::int64_t j = 0; j < steps.hidden; ++j) total += static_cast<double>(w[j]) * states.get(t, n, j);
    return total;
  }
  // Σ over rows of gradient · column of weights.
  double product_back(std::size_t weights, std::int64_t column, const Sequence<T>& gradient, std::int64_t t,
                      std::int64_t n) const {
    const T* w = static_cast<const T*>(launch.in[weights]) + column;
    double total = 0;
    for (std::int64_t k = 0; k < gradient.width; ++k)
      total += static_cast<double>(w[k * steps.hidden]) * gradient.get(t, n, k);
    return total;
  }
};

// Plan whose body gets a Recurrent<T>. `states` is the shape [t+1, n, h] of the states, `lengths` the number of the
// operand that may hold lengths.
template <class Body>
std::unique_ptr<Plan> plan_recurrent(const PlanRequest& request, const Shape& states, bool reverse, std::size_t lengths,
                                     Body body) {
  std::vector<std::int64_t> sizes;
  for (const auto& arg : request.in) sizes.push_back(arg.shape.numel());
  const RecurrentSteps steps = recurrent_steps(states, reverse);
  const bool has_lengths = request.in.size() > lengths;
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=, sizes = std::move(sizes), who = request.op.name](const Launch& launch) {
      body(Recurrent<T>{launch, steps.with_lengths(has_lengths ? launch.in[lengths] : nullptr, who.c_str()), sizes});
    });
  });
}

inline double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

// Adds the kernel of a layer whose attributes are op::LayerAttrs; the shape of its states is states(request).
template <class Body, class States>
void add_recurrent(KernelTable& table, const char* op, Body body, std::size_t lengths, States states) {
  table.add(op, DeviceKind::cpu, kernel(Accepts::contiguous, [=](const PlanRequest& request) {
              return plan_recurrent(request, states(request), request.attrs.as<op::LayerAttrs>().reverse, lengths,
                                    body);
            }));
}

}  // namespace starling::kernels::reference
