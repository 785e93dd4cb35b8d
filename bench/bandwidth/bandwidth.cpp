// How near elementwise ops, reductions and softmax come to the speed of memory: bytes that must move over time, as a
// share of a triad measured in the same rounds and counted the same way. Arrays are 100 MB of f32.
//   bench_bandwidth [--threads 2] [--rounds 20] [--pieces 1] [--json]
// On a machine that does other things besides, `--pieces 4` times quarters of the arrays, each by itself, and adds up
// the best times of all quarters.
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
#include "starling/ops/api/random.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"
#include "starling/tensor/bytes.h"
#include "starling/tensor/interpreter.h"

namespace {

using namespace starling;

constexpr std::int64_t kRows = 25000, kCols = 1000, kCount = kRows * kCols;
constexpr double kBytes = kCount * sizeof(float);

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Case {
  std::string name;
  double bytes;                             // read and written once each
  std::vector<std::function<void()>> body;  // one call a piece
  std::vector<double> best{};               // seconds of each piece

  void time() {
    best.resize(body.size(), 1e30);
    for (std::size_t i = 0; i < body.size(); ++i) best[i] = std::min(best[i], seconds_of(body[i]));
  }
  double seconds() const { return std::accumulate(best.begin(), best.end(), 0.0); }
  double speed() const { return bytes / seconds(); }
};

struct Options {
  int threads = 2;
  int rounds = 20;
  int pieces = 1;
  bool json = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const bool more = i + 1 < argc;
    if (!std::strcmp(argv[i], "--json")) options.json = true;
    if (!std::strcmp(argv[i], "--threads") && more) options.threads = std::atoi(argv[++i]);
    if (!std::strcmp(argv[i], "--pieces") && more) options.pieces = std::max(1, std::atoi(argv[++i]));
    if (!std::strcmp(argv[i], "--rounds") && more) options.rounds = std::atoi(argv[++i]);
  }
  return options;
}

// Rows [piece] of so many equal parts.
Tensor part_of(const Tensor& x, int piece, int pieces) {
  const std::int64_t rows = x.shape()[0] / pieces;
  return view_of(x, {rows, x.shape()[1]}, x.strides(), piece * rows * x.shape()[1]);
}

// An op of the library into memory that is already there, or nothing where there is no such op.
void add_op(std::vector<Case>& cases, const std::string& name, const std::vector<Tensor>& in, int pieces) {
  const OpDef* op = op_registry().find(name);
  if (!op) return;
  const Attrs attrs = Attrs::defaults(*op->attrs);
  Case made{name, 0, {}};
  const auto count = [&](const Tensor& t) { made.bytes += static_cast<double>(bytes_of(t)); };
  for (int piece = 0; piece < pieces; ++piece) {
    std::vector<Tensor> given;
    for (const auto& x : in) given.push_back(part_of(x, piece, pieces));
    const Types types = types_of(given);
    TensorList out;
    for (const auto& type : infer(*op, {types.data(), types.size()}, attrs))
      out.push_back(empty(type.shape, type.dtype));
    for (const auto& t : given) count(t);
    for (const auto& t : out) count(t);
    made.body.push_back([=] { current_interpreter().apply_into(*op, given, attrs, {out.data(), out.size()}); });
  }
  cases.push_back(std::move(made));
}

void add_triad(std::vector<Case>& cases, const Tensor& x, const Tensor& y, const Tensor& z, bool stream, int pieces) {
  Case made{stream ? "triad streamed" : "triad", 3 * kBytes, {}};
  for (int piece = 0; piece < pieces; ++piece) {
    const std::int64_t n = kCount / pieces, at = n * piece;
    made.body.push_back(
        [=] { triad(z.data<float>() + at, x.data<float>() + at, y.data<float>() + at, 3.0f, n, stream); });
  }
  cases.push_back(std::move(made));
}

void report(const std::vector<Case>& cases, const Options& options) {
  const double triad_speed = std::max(cases[0].speed(), cases[1].speed());
  for (const Case& c : cases) {
    const double share = c.speed() / triad_speed;
    if (options.json) {
      fmt::print(
          R"({{"bench": "bandwidth", "op": "{}", "threads": {}, "bytes": {}, "ms": {:.4f}, "gb_s": {:.3f}, "of_triad": {:.4f}}})"
          "\n",
          c.name, options.threads, c.bytes, c.seconds() * 1e3, c.speed() / 1e9, share);
    } else {
      fmt::print("{:<16}{:9.2f} ms{:9.2f} GB/s{:8.1f} % of triad\n", c.name, c.seconds() * 1e3, c.speed() / 1e9,
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
  for (const bool stream : {false, true}) add_triad(cases, x, y, z, stream, options.pieces);
  add_op(cases, "add", {x, y}, options.pieces);
  for (const char* name : {"relu", "exp", "tanh", "gelu", "sum", "max", "var", "softmax"})
    add_op(cases, name, {x}, options.pieces);
  for (Case& c : cases) {
    for (const auto& body : c.body) body();  // warm up: plans, pages
  }
  // A new order each round: what else the machine does in turns meets every case alike.
  std::mt19937 random(1);
  std::vector<std::size_t> order(cases.size());
  std::iota(order.begin(), order.end(), 0u);
  for (int round = 0; round < options.rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t i : order) cases[i].time();
  }
  report(cases, options);
}
