// How near elementwise ops, reductions and softmax come to the speed of memory: bytes that must move over time, as a
// share of a triad measured in the same rounds and counted the same way. Arrays are 100 MB of f32.
//   bench_bandwidth [--threads 2] [--rounds 20] [--json]
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bandwidth/triad.h"
#include "starling/base/parallel.h"
#include "starling/ops/apply.h"
#include "starling/ops/random.h"
#include "starling/ops/registry.h"
#include "starling/tensor/interpreter.h"

namespace {

using namespace starling;

constexpr std::int64_t kRows = 25000, kCols = 1000, kCount = kRows * kCols;
constexpr double kBytes = kCount * sizeof(float);

struct Case {
  std::string name;
  double bytes;  // read and written once each
  std::function<void()> body;
  std::vector<double> seconds{};

  double best() const { return *std::min_element(seconds.begin(), seconds.end()); }
  double speed() const { return bytes / best(); }
};

struct Options {
  int threads = 2;
  int rounds = 20;
  bool json = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const bool more = i + 1 < argc;
    if (!std::strcmp(argv[i], "--json")) options.json = true;
    if (!std::strcmp(argv[i], "--threads") && more) options.threads = std::atoi(argv[++i]);
    if (!std::strcmp(argv[i], "--rounds") && more) options.rounds = std::atoi(argv[++i]);
  }
  return options;
}

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// An op of the library into memory that is already there, or nothing where there is no such op.
void add_op(std::vector<Case>& cases, const std::string& name, const std::vector<Tensor>& in) {
  const OpDef* op = op_registry().find(name);
  if (!op) return;
  const Attrs attrs = Attrs::defaults(*op->attrs);
  TensorList out;
  double bytes = 0;
  const Types types = types_of(in);
  for (const auto& type : infer(*op, {types.data(), types.size()}, attrs)) {
    out.push_back(empty(type.shape, type.dtype));
    bytes += static_cast<double>(out.back().numel()) * static_cast<double>(size_of(type.dtype));
  }
  for (const auto& x : in) bytes += static_cast<double>(x.numel()) * sizeof(float);
  cases.push_back({name, bytes, [=] { current_interpreter().apply_into(*op, in, attrs, {out.data(), out.size()}); }});
}

void report(const std::vector<Case>& cases, const Options& options) {
  const double triad_speed = std::max(cases[0].speed(), cases[1].speed());
  for (const Case& c : cases) {
    const double share = c.speed() / triad_speed;
    if (options.json) {
      fmt::print(
          R"({{"bench": "bandwidth", "op": "{}", "threads": {}, "bytes": {}, "ms": {:.4f}, "gb_s": {:.3f}, "of_triad": {:.4f}}})"
          "\n",
          c.name, options.threads, c.bytes, c.best() * 1e3, c.speed() / 1e9, share);
    } else {
      fmt::print("{:<16}{:9.2f} ms{:9.2f} GB/s{:8.1f} % of triad\n", c.name, c.best() * 1e3, c.speed() / 1e9,
                 share * 100);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const ThreadScope threads(options.threads);
  const Tensor x = uniform({kRows, kCols}, {.low = -3, .high = 3}), y = uniform({kRows, kCols}, {.low = -3, .high = 3});
  const Tensor z = empty({kRows, kCols});
  std::vector<Case> cases;
  for (const bool stream : {false, true}) {
    cases.push_back({stream ? "triad streamed" : "triad", 3 * kBytes, [&x, &y, &z, stream] {
                       triad(z.data<float>(), x.data<float>(), y.data<float>(), 3.0f, kCount, stream);
                     }});
  }
  add_op(cases, "add", {x, y});
  for (const char* name : {"relu", "exp", "tanh", "gelu", "sum", "max", "var", "softmax"}) add_op(cases, name, {x});
  for (Case& c : cases) c.body();  // warm up: plans, pages
  // A new order each round: what else the machine does in turns meets every case alike.
  std::mt19937 random(1);
  std::vector<std::size_t> order(cases.size());
  std::iota(order.begin(), order.end(), 0u);
  for (int round = 0; round < options.rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t i : order) cases[i].seconds.push_back(seconds_of(cases[i].body));
  }
  report(cases, options);
}
