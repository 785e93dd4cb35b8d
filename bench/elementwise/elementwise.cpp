// Memory speed of the elementwise, reduction and softmax kernels on 100 MB arrays, beside a triad measured in the same
// rounds. Usage: bench_elementwise [threads] [rounds]
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "starling/base/parallel.h"
#include "starling/base/philox.h"
#include "starling/kernels/cpu/norm/softmax.h"
#include "starling/kernels/cpu/random/random.h"
#include "starling/kernels/cpu/reduce/reduce.h"
#include "starling/kernels/cpu/simd/copy.h"
#include "starling/kernels/cpu/simd/vector_ops.h"
#include "starling/kernels/cpu/update/sgd.h"

namespace {

using namespace starling;

constexpr std::int64_t kCols = 1000;
constexpr std::int64_t kRows = 25000;
constexpr std::int64_t kCount = kRows * kCols;  // 100 MB of floats

struct Case {
  std::string name;
  double arrays;  // read plus written, in units of one array
  std::function<void()> body;
  double best = 1e30;
};

double seconds(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// a = b + s * c, the plain loop every memory benchmark has.
void triad(float* a, const float* b, const float* c) {
  parallel_for(kCount, 16384, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) a[i] = b[i] + 3.0f * c[i];
  });
}

struct Arrays {
  std::vector<float> x = std::vector<float>(kCount), y = std::vector<float>(kCount), z = std::vector<float>(kCount);
  std::vector<float> row = std::vector<float>(kRows), col = std::vector<float>(kCols);
};

void add_maps(std::vector<Case>& cases, const kernels::BlockTable& table, Arrays& a) {
  for (const char* name : {"relu", "exp", "log", "tanh", "sigmoid", "sqrt"}) {
    const kernels::BlockEntry* entry = table.find(name);
    cases.push_back({name, 2, [entry, &a] {
                       const void* in[] = {a.x.data()};
                       run_block(*entry, kernels::BlockType::f32, in, 0, a.z.data(), kCount);
                     }});
  }
  for (const char* name : {"add", "tanh_backward"}) {
    const kernels::BlockEntry* entry = table.find(name);
    cases.push_back({name, 3, [entry, &a] {
                       const void* in[] = {a.x.data(), a.y.data()};
                       run_block(*entry, kernels::BlockType::f32, in, 0, a.z.data(), kCount);
                     }});
  }
}

void add_rest(std::vector<Case>& cases, Arrays& a) {
  cases.push_back({"sum all", 1, [&] { kernels::reduce_sum(a.x.data(), a.row.data(), {1, kCount, 1}); }});
  cases.push_back({"max all", 1, [&] { kernels::reduce_max(a.x.data(), a.row.data(), {1, kCount, 1}); }});
  cases.push_back({"sum rows", 1, [&] { kernels::reduce_sum(a.x.data(), a.row.data(), {kRows, kCols, 1}); }});
  cases.push_back({"sum columns", 1, [&] { kernels::reduce_sum(a.x.data(), a.col.data(), {1, kRows, kCols}); }});
  cases.push_back({"sum 10 columns", 1, [&] { kernels::reduce_sum(a.x.data(), a.col.data(), {1, kCount / 10, 10}); }});
  cases.push_back({"softmax 1000", 2, [&] { kernels::softmax(a.x.data(), a.z.data(), kRows, kCols); }});
  cases.push_back({"softmax 10", 2, [&] { kernels::softmax(a.x.data(), a.z.data(), kCount / 10, 10); }});
  cases.push_back({"sgd momentum", 5, [&] {
                     const double lr = 1e-9;
                     const kernels::SgdTensor<float> all[] = {{a.z.data(), a.x.data(), a.y.data(), kCount}};
                     sgd_update<float>(all, lr, {.momentum = 0.9, .weight_decay = 1e-9});
                   }});
  cases.push_back({"uniform", 1, [&] { kernels::fill_uniform(a.z.data(), kCount, PhiloxKey{1, 2, 3}, 0); }});
  cases.push_back({"normal", 1, [&] { kernels::fill_normal(a.z.data(), kCount, PhiloxKey{1, 2, 3}, 0); }});
  cases.push_back({"dropout", 2, [&] {
                     kernels::dropout(a.x.data(), a.z.data(), kCount, PhiloxKey{1, 2, 3}, 0, 0.5);
                   }});
  cases.push_back({"transpose", 2, [&] { kernels::transpose(a.x.data(), a.z.data(), kRows, kCols, 4); }});
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 10;
  ThreadScope scope(threads);
  Arrays a;
  kernels::fill_uniform(a.x.data(), kCount, PhiloxKey{1, 0, 0}, 0, 0.01, 4.0);
  kernels::fill_uniform(a.y.data(), kCount, PhiloxKey{2, 0, 0}, 0, -1.0, 1.0);
  kernels::BlockTable table;
  register_cpu_blocks(table);
  std::vector<Case> cases{{"triad", 3, [&] { triad(a.z.data(), a.x.data(), a.y.data()); }}};
  add_maps(cases, table, a);
  add_rest(cases, a);
  for (int round = 0; round < rounds; ++round) {
    for (Case& c : cases) c.best = std::min(c.best, seconds(c.body));
  }
  const auto speed = [](const Case& c) { return c.arrays * kCount * sizeof(float) / c.best / 1e9; };
  fmt::print("{} threads, {} MB arrays, best of {}\n", threads, kCount * 4 / 1000000, rounds);
  for (const Case& c : cases) {
    fmt::print("{:<24}{:8.2f} ms {:8.2f} GB/s {:6.2f} of triad\n", c.name, c.best * 1e3, speed(c),
               speed(c) / speed(cases[0]));
  }
}
