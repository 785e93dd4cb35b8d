#include <gtest/gtest.h>

#include <iostream>

#include "cuda/cuda_testing.h"
#include "starling/kernels/cuda/device/gemm.h"
#include "starling/kernels/cuda/lt_product.h"
#include "starling/kernels/cuda/product.h"
#include "starling/tensor/cuda/cuda_error.h"

namespace starling::testing {
namespace {

using cuda::ProductSpec;
using device::Activation;
using device::Epilogue;
using device::Gemm;

using Doubles = std::vector<double>;

Tensor random_tensor(int rows, int columns, unsigned seed) {
  std::mt19937 engine(seed);
  return drawn({.shape = {rows, columns}, .low = -1, .high = 1}, engine);
}

double activated(Activation f, double x) {
  return f == Activation::relu      ? std::max(x, 0.0)
         : f == Activation::tanh    ? std::tanh(x)
         : f == Activation::sigmoid ? 1 / (1 + std::exp(-x))
                                    : x;
}
double slope(Activation f, double y) {
  return f == Activation::relu      ? double(y > 0)
         : f == Activation::tanh    ? 1 - y * y
         : f == Activation::sigmoid ? y * (1 - y)
                                    : 1;
}

// Operands on host and device, and the result worked out in f64.
struct Problem {
  ProductSpec spec;
  Tensor a, b, bias, y, w, v, lr;
  Doubles c, new_w, new_v;

  explicit Problem(const ProductSpec& s)
      : spec(s),
        a(s.trans_a ? random_tensor(s.k, s.m, 1) : random_tensor(s.m, s.k, 1)),
        b(s.trans_b ? random_tensor(s.n, s.k, 2) : random_tensor(s.k, s.n, 2)),
        bias(random_tensor(1, s.n, 3)),
        y(random_tensor(s.m, s.n, 4)),
        w(random_tensor(s.m, s.n, 5)),
        v(random_tensor(s.m, s.n, 6)),
        lr(from_doubles(Doubles{0.25}, {})) {
    const Doubles product = multiplied(), ys = y.to_vector(), ws = w.to_vector(), vs = v.to_vector(),
                  biases = bias.to_vector();
    for (std::size_t i = 0; i < product.size(); ++i) {
      const double added = s.bias ? biases[i % static_cast<std::size_t>(s.n)] : 0;
      c.push_back(s.epilogue == Epilogue::backward ? product[i] * slope(s.activation, ys[i])
                                                   : activated(s.activation, product[i] + added));
      new_v.push_back(0.5 * vs[i] + product[i] + 0.125 * ws[i]);
      new_w.push_back(ws[i] - 0.25 * new_v.back());
    }
  }

  Doubles multiplied() const {
    const auto m = static_cast<std::size_t>(spec.m), n = static_cast<std::size_t>(spec.n),
               k = static_cast<std::size_t>(spec.k);
    const Doubles as = a.to_vector(), bs = b.to_vector();
    Doubles out(m * n);
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t p = 0; p < k; ++p) {
        const double left = spec.trans_a ? as[p * m + i] : as[i * k + p];
        for (std::size_t j = 0; j < n; ++j) out[i * n + j] += left * (spec.trans_b ? bs[j * k + p] : bs[p * n + j]);
      }
    }
    return out;
  }

  // Runs one implementation of the product and compares.
  template <class Run>
  void expect(Run&& way) const {
    const Tensor da = to(a, kGpu), db = to(b, kGpu), dbias = to(bias, kGpu), dy = to(y, kGpu), dw = to(w, kGpu),
                 dv = to(v, kGpu), dlr = to(lr, kGpu);
    const Tensor dc = poisoned({DType::f32, {spec.m, spec.n}});
    Gemm gemm = cuda::empty_gemm(spec);
    gemm.a = da.data<float>(), gemm.b = db.data<float>(), gemm.c = dc.data<float>(), gemm.y = dy.data<float>();
    gemm.w = gemm.w_out = dw.data<float>(), gemm.v = gemm.v_out = dv.data<float>();
    gemm.bias = spec.bias ? dbias.data<float>() : nullptr;
    gemm.lr = dlr.data<float>(), gemm.momentum = 0.5f, gemm.decay = 0.125f;
    way(gemm);
    if (spec.epilogue == Epilogue::sgd) {
      EXPECT_LE(relative_error(dw.to_vector(), new_w), 1e-3);
      EXPECT_LE(relative_error(dv.to_vector(), new_v), 1e-3);
    } else {
      EXPECT_LE(relative_error(dc.to_vector(), c), 1e-3);
    }
  }
};

std::string describe(const ProductSpec& s) {
  return fmt::format("{}x{}x{}{}{} epilogue {} activation {}", s.m, s.n, s.k, s.trans_a ? " aT" : "",
                     s.trans_b ? " bT" : "", static_cast<int>(s.epilogue), static_cast<int>(s.activation));
}

class CudaProduct : public OnGpu {};

void expect_every_cut(const ProductSpec& spec) {
  const Problem problem(spec);
  for (int tile = 0; tile < device::kGemmTiles; ++tile) {
    for (int split = 1; split <= 8; split *= 2) {
      SCOPED_TRACE(fmt::format("{} tile {} split {}", describe(spec), tile, split));
      problem.expect([&](const Gemm& gemm) {
        check_cuda(device::load_gemm({spec.trans_a, spec.trans_b}, {tile, split}), "loading");
        check_cuda(device::launch_gemm(gemm, {spec.trans_a, spec.trans_b}, {tile, split}, nullptr), "launching");
      });
    }
  }
}

TEST_F(CudaProduct, IsRightForEveryTileSplitAndFormat) {
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      expect_every_cut({.m = 64, .n = 80, .k = 256, .trans_a = trans_a, .trans_b = trans_b, .bias = true});
      expect_every_cut({.m = 37, .n = 45, .k = 203, .trans_a = trans_a, .trans_b = trans_b});
      expect_every_cut({.m = 64, .n = 10, .k = 100, .trans_a = trans_a, .trans_b = trans_b, .bias = true});
    }
  }
}

TEST_F(CudaProduct, FinishesWithEveryEpilogue) {
  for (const auto activation : {Activation::none, Activation::relu, Activation::tanh, Activation::sigmoid}) {
    expect_every_cut({.m = 33, .n = 36, .k = 52, .activation = activation, .bias = true});
    expect_every_cut({.m = 33, .n = 35, .k = 51, .epilogue = Epilogue::backward, .activation = activation});
  }
  expect_every_cut({.m = 48, .n = 72, .k = 64, .trans_a = true, .epilogue = Epilogue::sgd});
  expect_every_cut({.m = 10, .n = 71, .k = 64, .trans_a = true, .epilogue = Epilogue::sgd});
}

TEST_F(CudaProduct, TheFastestWayIsRightForTheNetworksShapes) {
  const auto layer = [](int in, int out) {
    const ProductSpec specs[] = {
        {.m = 64, .n = out, .k = in, .trans_b = true, .activation = Activation::sigmoid, .bias = true},
        {.m = 64, .n = out, .k = in, .trans_b = true, .activation = Activation::relu, .bias = true},
        {.m = 64, .n = in, .k = out, .epilogue = Epilogue::backward, .activation = Activation::sigmoid},
        {.m = out, .n = in, .k = 64, .trans_a = true, .epilogue = Epilogue::sgd}};
    for (const auto& spec : specs) {
      SCOPED_TRACE(describe(spec));
      const auto product = cuda::best_product(spec);
      std::cout << "[  CHOSEN  ] " << describe(spec) << ": " << product->name << "\n";
      const Tensor scratch = poisoned({DType::u8, {static_cast<std::int64_t>(product->scratch_bytes)}});
      Problem(spec).expect([&](const Gemm& gemm) { product->run(gemm, scratch.raw(), nullptr); });
    }
  };
  layer(784, 512);
  layer(512, 10);
  layer(200, 100);
  layer(1000, 2000);
}

TEST_F(CudaProduct, TheLibrarysWaysAreRight) {
  const ProductSpec specs[] = {
      {.m = 64, .n = 80, .k = 256, .trans_b = true, .activation = Activation::relu, .bias = true},
      {.m = 64, .n = 80, .k = 256, .trans_b = true, .activation = Activation::tanh, .bias = true},
      {.m = 64, .n = 256, .k = 80, .epilogue = Epilogue::backward, .activation = Activation::sigmoid},
      {.m = 80, .n = 256, .k = 64, .trans_a = true, .epilogue = Epilogue::sgd}};
  for (const auto& spec : specs) {
    SCOPED_TRACE(describe(spec));
    const Problem problem(spec);
    const auto ways = cuda::lt_products(spec, 4);
    EXPECT_FALSE(ways.empty());
    for (const auto& way : ways) {
      const Tensor scratch = poisoned({DType::u8, {static_cast<std::int64_t>(way->scratch_bytes)}});
      problem.expect([&](const Gemm& gemm) { way->run(gemm, scratch.raw(), nullptr); });
    }
  }
}

}  // namespace
}  // namespace starling::testing
