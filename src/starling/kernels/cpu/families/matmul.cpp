#include "starling/ops/api/matmul.h"

#include <algorithm>
#include <type_traits>

#include "starling/kernels/cpu/gemm/product.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/launch_args.h"

namespace starling::kernels {
namespace {

// Integer products, which wrap. Rows of c are built from rows of b, which the compiler vectorises.
template <class T>
std::unique_ptr<Plan> plan_integers(const PlanRequest& request, const BatchedProduct& product) {
  using U = std::make_unsigned_t<T>;
  const auto& at = request.attrs.as<op::MatmulAttrs>();
  const auto a = matrix_arg(request.in[0], at.trans_a), b = matrix_arg(request.in[1], at.trans_b);
  const std::int64_t n = b->cols, k = a->cols, m = n == 0 ? 0 : product.results / n;
  const std::int64_t a_row = a->trans ? 1 : k, a_col = a->trans ? a->rows : 1;
  const std::int64_t b_row = b->trans ? 1 : n, b_col = b->trans ? k : 1;
  return make_plan(product.scratch_bytes(), [=](const Launch& l) {
    product.each(l.scratch, [&](auto a_at, auto b_at, auto c_at, void*) {
      for (std::int64_t i = 0; i < m; ++i) {
        U* row = output<U>(l) + c_at + i * n;
        std::fill_n(row, n, U{0});
        for (std::int64_t x = 0; x < k; ++x) {
          const U factor = input<U>(l, 0)[a_at + i * a_row + x * a_col];
          const U* from = input<U>(l, 1) + b_at + x * b_row;
          for (std::int64_t j = 0; j < n; ++j) row[j] += factor * from[j * b_col];
        }
      }
    });
  });
}

std::unique_ptr<Plan> plan_matmul(const PlanRequest& request) {
  const auto& at = request.attrs.as<op::MatmulAttrs>();
  const DType dtype = request.in[0].dtype;
  const auto product = plan_product(request.in[0], request.in[1], at.trans_a, at.trans_b, request.threads);
  if (!product) return nullptr;
  if (dtype == DType::i32) return plan_integers<std::int32_t>(request, *product);
  if (dtype == DType::i64) return plan_integers<std::int64_t>(request, *product);
  if (dtype != DType::f32 && dtype != DType::f64) return nullptr;
  if (dtype == DType::f64) {
    return make_plan(product->scratch_bytes(), [p = *product](const Launch& l) {
      p.each(l.scratch, [&](auto a, auto b, auto c, void* scratch) {
        gemm(p.plan, input<double>(l, 0) + a, input<double>(l, 1) + b, output<double>(l) + c, false, scratch);
      });
    });
  }
  if (product->batch.empty()) {
    return make_plan(product->scratch_bytes(), [plan = product->plan](const Launch& l) {
      gemm(plan, input<float>(l, 0), input<float>(l, 1), output<float>(l), {}, l.scratch);
    });
  }
  return make_plan(product->scratch_bytes(), [p = *product](const Launch& l) {
    p.each(l.scratch, [&](auto a, auto b, auto c, void* scratch) {
      gemm(p.plan, input<float>(l, 0) + a, input<float>(l, 1) + b, output<float>(l) + c, {}, scratch);
    });
  });
}

// x as a matrix of rows: any leading dimensions if dense; a transposed x only if it is a matrix.
std::optional<ArgDesc> as_rows(const ArgDesc& x, std::int64_t rows) {
  if (x.shape.rank() == 2) return x;
  if (!x.contiguous()) return std::nullopt;
  return dense({x.dtype, {rows, x.shape.back()}});
}

std::unique_ptr<Plan> plan_linear(const PlanRequest& request) {
  const DType dtype = request.in[0].dtype;
  if (dtype != DType::f32 && dtype != DType::f64) return nullptr;
  std::int64_t rows = 1;
  for (int i = 0; i + 1 < request.in[0].shape.rank(); ++i) rows *= request.in[0].shape[i];
  const auto x = as_rows(request.in[0], rows);
  if (!x) return nullptr;
  const auto product = plan_product(*x, request.in[1], false, true, request.threads);
  if (!product) return nullptr;
  const GemmActivation activation = gemm_activation(request.attrs.as<op::LinearAttrs>().activation);
  const bool biased = request.in.size() == 3;
  const GemmPlan plan = product->plan;
  if (dtype == DType::f32) {
    return make_plan(product->scratch_bytes(), [=](const Launch& l) {
      GemmEpilogue epilogue;
      epilogue.bias_n = biased ? input<float>(l, 2) : nullptr;
      epilogue.activation = activation;
      gemm(plan, input<float>(l, 0), input<float>(l, 1), output<float>(l), epilogue, l.scratch);
    });
  }
  const auto n = request.in[1].shape[0];
  return make_plan(product->scratch_bytes(), [=](const Launch& l) {
    gemm(plan, input<double>(l, 0), input<double>(l, 1), output<double>(l), false, l.scratch);
    finish_rows(activation, biased ? input<double>(l, 2) : nullptr, output<double>(l), rows, n);
  });
}

std::unique_ptr<Plan> plan_matmul_act(const PlanRequest& request) {
  const auto& at = request.attrs.as<op::MatmulActAttrs>();
  const DType dtype = request.in[0].dtype;
  if ((dtype != DType::f32 && dtype != DType::f64) || !request.in[2].contiguous()) return nullptr;
  const auto product = plan_product(request.in[0], request.in[1], at.trans_a, at.trans_b, request.threads);
  if (!product) return nullptr;
  const GemmActivation activation = gemm_activation(at.activation);
  const auto n = request.out[0].shape.back();
  if (dtype == DType::f32) {
    return make_plan(product->scratch_bytes(), [p = *product, activation, n](const Launch& l) {
      p.each(l.scratch, [&](auto a, auto b, auto c, void* scratch) {
        GemmEpilogue epilogue;
        epilogue.derivative = activation;
        epilogue.ld_saved = n;
        epilogue.saved_output = input<float>(l, 2) + c;
        gemm(p.plan, input<float>(l, 0) + a, input<float>(l, 1) + b, output<float>(l) + c, epilogue, scratch);
      });
    });
  }
  return make_plan(product->scratch_bytes(), [p = *product, activation](const Launch& l) {
    p.each(l.scratch, [&](auto a, auto b, auto c, void* scratch) {
      gemm(p.plan, input<double>(l, 0) + a, input<double>(l, 1) + b, output<double>(l) + c, false, scratch);
      multiply_derivative(activation, input<double>(l, 2) + c, output<double>(l) + c, p.results);
    });
  });
}

}  // namespace

void register_cpu_matmul(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, {"gemm", Accepts::transposed, plan});
    table.add(op, DeviceKind::cpu, {"gemm", Accepts::contiguous, plan});
  };
  add("matmul", plan_matmul);
  add("linear", plan_linear);
  add("matmul_act", plan_matmul_act);
}

}  // namespace starling::kernels
