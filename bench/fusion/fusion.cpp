// Costs of fused chains beside one copy of the same 100 MB, and beside their ops one by one. All are timed in turns; a
// new order each round.
//   bench_fusion [--threads 2] [--rounds 20] [--pieces 1] [--json] [--only NAME]
// On a machine that does other things besides, `--pieces 20` times twentieths of the rows, each by itself, and adds up
// the best times of all of them.
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

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/simd/copy.h"
#include "starling/ops/api/random.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/fused.h"
#include "starling/ops/def/registry.h"
#include "starling/tensor/bytes.h"
#include "starling/tensor/interpreter.h"

namespace {

using namespace starling;

constexpr std::int64_t kRows = 25000, kCols = 1000, kCount = kRows * kCols;
constexpr double kBytes = kCount * sizeof(float);

struct Options {
  int threads = 2;
  int rounds = 20;
  int pieces = 1;
  bool json = false;
  std::string only{};
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const bool more = i + 1 < argc;
    if (!std::strcmp(argv[i], "--json")) options.json = true;
    if (!std::strcmp(argv[i], "--threads") && more) options.threads = std::atoi(argv[++i]);
    if (!std::strcmp(argv[i], "--rounds") && more) options.rounds = std::atoi(argv[++i]);
    if (!std::strcmp(argv[i], "--pieces") && more) options.pieces = std::max(1, std::atoi(argv[++i]));
    if (!std::strcmp(argv[i], "--only") && more) options.only = argv[++i];
  }
  return options;
}

struct Case {
  std::string name{};
  double bytes = 0;                           // read and written once each
  std::vector<std::function<void()>> body{};  // one call a piece
  std::vector<double> best{};                 // seconds of each piece

  void time(bool counts) {
    best.resize(body.size(), 1e30);
    for (std::size_t i = 0; i < body.size(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      body[i]();
      const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (counts) best[i] = std::min(best[i], took);
    }
  }
  double seconds() const { return std::accumulate(best.begin(), best.end(), 0.0); }
};

// Rows [piece] of so many equal parts, where the tensor has all rows.
Tensor part_of(const Tensor& x, int rank, std::int64_t rows, int piece, int pieces) {
  if (x.rank() < rank || x.shape()[0] != rows) return x;
  Shape shape = x.shape();
  shape[0] /= pieces;
  return view_of(x, shape, x.strides(), piece * shape[0] * x.strides()[0]);
}

// The whole program as one op, and each step by itself into memory that is already there.
struct Chain {
  std::string name;
  Case fused, apart;

  explicit Chain(const std::string& title) : name(title) {}
  Chain(const std::string& title, const char* text, const std::vector<Tensor>& in, int pieces) : name(title) {
    const FusedProgram program = FusedProgram::parse(text);
    for (int piece = 0; piece < pieces; ++piece) {
      std::vector<Tensor> given;
      for (const auto& t : in) given.push_back(part_of(t, in[0].rank(), in[0].shape()[0], piece, pieces));
      add_fused(program, given);
      add_apart(program, given);
    }
  }

  void add_fused(const FusedProgram& program, const std::vector<Tensor>& in) {
    const OpDef& op = find_op("fused");
    const Attrs attrs = op::FusedAttrs{Symbol(program.print())};
    const Types types = types_of(in);
    TensorList out;
    for (const auto& type : infer(op, {types.data(), types.size()}, attrs))
      out.push_back(empty(type.shape, type.dtype));
    for (const auto& t : in) fused.bytes += static_cast<double>(bytes_of(t));
    for (const auto& t : out) fused.bytes += static_cast<double>(bytes_of(t));
    fused.body.push_back([=, &op] { current_interpreter().apply_into(op, in, attrs, {out.data(), out.size()}); });
  }

  void add_apart(const FusedProgram& program, const std::vector<Tensor>& in) {
    const Types types = types_of(in);
    std::vector<Tensor> values(in.begin(), in.end());
    const auto step_types = program.infer({types.data(), types.size()});
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
      const auto& type = step_types[in.size() + s];
      values.push_back(empty(type.shape, type.dtype));
    }
    apart.body.push_back([=] {
      for (std::size_t s = 0; s < program.steps.size(); ++s) {
        TensorList given, made{values[in.size() + s]};
        for (int v : program.steps[s].in) given.push_back(values[static_cast<std::size_t>(v)]);
        current_interpreter().apply_into(*program.steps[s].op, given, program.steps[s].attrs(),
                                         {made.data(), made.size()});
      }
    });
  }
};

std::vector<Chain> chains(const Options& options) {
  const auto drawn = [](const Shape& shape) { return uniform(shape, {.low = -2, .high = 2}); };
  const Tensor x = drawn({kRows, kCols}), dy = drawn({kRows, kCols}), row = drawn({kCols}), one = drawn({});
  const Tensor column = drawn({kRows, 1});
  const Tensor image = drawn({40, 200, 3125}), rest = drawn({40, 200, 3125}), channel = drawn({200, 1});
  const std::string six = "t0=mul(a0,a1); t1=add(t0,a2); t2=relu(t1); t3=sub(t2,a1); t4=mul(t3,a1); t5=abs(t4); ";
  const std::vector<std::tuple<std::string, std::string, std::vector<Tensor>>> list = {
      {"six ops, sum of rows", six + "t6=sum(t5,1); o0=t6", {x, one, row}},
      {"six ops, sum of all", six + "t6=sum(t5,0,1); o0=t6", {x, one, row}},
      {"six ops, sum of columns", six + "t6=sum(t5,0); o0=t6", {x, one, row}},
      {"six ops, max of rows", six + "t6=max(t5,1); o0=t6", {x, one, row}},
      {"six ops and sum of rows", six + "t6=sum(t5,1); o0=t5; o1=t6", {x, one, row}},
      {"six ops alone", six + "o0=t5", {x, one, row}},
      {"softmax", "t0=max(a0,1); t1=sub(a0,t0); t2=exp(t1); t3=sum(t2,1); t4=div(t2,t3); o0=t4", {x}},
      {"layer norm",
       "t0=mean(a0,1); t1=sub(a0,t0); t2=mul(t1,t1); t3=mean(t2,1); t4=add(t3,a1); t5=sqrt(t4); t6=div(t1,t5); "
       "t7=mul(t6,a2); t8=add(t7,a2); o0=t8",
       {x, one, row}},
      {"rms norm", "t0=mul(a0,a0); t1=mean(t0,1); t2=sqrt(t1); t3=div(a0,t2); t4=mul(t3,a1); o0=t4", {x, row}},
      {"log-sum-exp", "t0=max(a0,1); t1=sub(a0,t0); t2=exp(t1); t3=sum(t2,1); t4=log(t3); t5=add(t4,t0); o0=t5", {x}},
      {"bias, gelu backward and bias gradient",
       "t0=add(a0,a1); t1=gelu_backward(a2,t0); t2=sum(t1,0); o0=t1; o1=t2",
       {x, row, dy}},
      {"softmax backward", "t0=mul(a0,a1); t1=sum(t0,1); t2=sub(a0,t1); t3=mul(t2,a1); o0=t3", {dy, x}},
      {"batch norm's map, residual, relu",
       "t0=mul(a0,a1); t1=add(t0,a2); t2=add(t1,a3); t3=relu(t2); o0=t3",
       {image, channel, channel, rest}},
      {"relu backward and channel sums",
       "t0=relu_backward(a0,a1); t1=sum(t0,0,2); t2=mul(t0,a1); t3=sum(t2,0,2); o0=t0; o1=t1; o2=t3",
       {image, rest}},
      {"momentum", "t0=mul(a0,a3); t1=add(t0,a1); t2=mul(t1,a3); t3=sub(a2,t2); o0=t1; o1=t3", {x, dy, x, one}},
  };
  std::vector<Chain> made;
  for (const auto& [name, text, in] : list) {
    if (options.only.empty() || name.find(options.only) != std::string::npos)
      made.emplace_back(name, text.c_str(), in, options.pieces);
  }
  return made;
}

// An op and the ops that it stands for, on the same operands: what is given is named by number, results follow.
struct Apart {
  const char* op;
  std::vector<int> in;
};
Chain one_of(const std::string& name, const char* op, const std::vector<Tensor>& in, const std::vector<Apart>& apart) {
  Chain made(name);
  const auto body = [](const char* title, const std::vector<Tensor>& given, double* bytes, TensorList& out) {
    const OpDef& found = find_op(title);
    const Attrs attrs = Attrs::defaults(*found.attrs);
    const Types types = types_of(given);
    for (const auto& type : infer(found, {types.data(), types.size()}, attrs))
      out.push_back(empty(type.shape, type.dtype));
    for (const auto& t : given) *bytes += static_cast<double>(bytes_of(t));
    for (const auto& t : out) *bytes += static_cast<double>(bytes_of(t));
    return [=, &found] { current_interpreter().apply_into(found, given, attrs, {out.data(), out.size()}); };
  };
  TensorList unused;
  made.fused.body.push_back(body(op, in, &made.fused.bytes, unused));
  std::vector<Tensor> values = in;
  std::vector<std::function<void()>> calls;
  for (const auto& [title, numbers] : apart) {
    std::vector<Tensor> given;
    for (int i : numbers) given.push_back(values[static_cast<std::size_t>(i)]);
    TensorList out;
    calls.emplace_back(body(title, given, &made.apart.bytes, out));
    for (const auto& t : out) values.push_back(t);
  }
  made.apart.body.push_back([=] {
    for (const auto& call : calls) call();
  });
  return made;
}

// Normalisations of resnet18 with a batch of 32.
void add_norms(std::vector<Chain>& chains, const Options& options) {
  for (const Shape& shape :
       {Shape{32, 64, 56, 56}, Shape{32, 128, 28, 28}, Shape{32, 256, 14, 14}, Shape{32, 512, 7, 7}}) {
    const auto drawn = [](const Shape& s) { return uniform(s, {.low = 0.5, .high = 2}); };
    const Tensor x = drawn(shape), r = drawn(shape), dy = drawn(shape), w = drawn({shape[1]}), b = drawn({shape[1]});
    const auto add = [&](const std::string& name, const char* op, const std::vector<Tensor>& in,
                         const std::vector<Apart>& apart) {
      const std::string title = name + " " + to_string(shape);
      if (options.only.empty() || title.find(options.only) != std::string::npos)
        chains.push_back(one_of(title, op, in, apart));
    };
    add("norm, relu", "batch_norm_relu", {x, w, b}, {{"batch_norm_train", {0, 1, 2}}, {"relu", {3}}});
    add("norm, residual, relu", "batch_norm_relu", {x, w, b, r},
        {{"batch_norm_train", {0, 1, 2}}, {"add", {4, 3}}, {"relu", {7}}});
    add("norm and relu backward", "batch_norm_relu_backward", {dy, r, x, b, w, w},
        {{"relu_backward", {0, 1}}, {"batch_norm_train_backward", {6, 2, 3, 4, 5}}});
  }
}

// The faster of the library's copy and of threads that call memcpy.
std::vector<Case> copies(const Tensor& x, const Tensor& y, int pieces) {
  std::vector<Case> made{{"copy", 2 * kBytes}, {"memcpy", 2 * kBytes}};
  for (int piece = 0; piece < pieces; ++piece) {
    const std::int64_t n = kCount / pieces;
    const float* from = x.data<float>() + n * piece;
    float* to = y.data<float>() + n * piece;
    made[0].body.push_back([=] {
      const std::int64_t shape[] = {n}, strides[] = {1};
      kernels::copy_strided({shape, from, strides, to, strides, 4});
    });
    made[1].body.push_back([=] {
      parallel_for(n, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
        std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin) * 4);
      });
    });
  }
  return made;
}

void report(const std::vector<Case>& copies, const std::vector<Chain>& chains, const Options& options) {
  const double copy = std::min(copies[0].seconds(), copies[1].seconds());
  if (!options.json) fmt::print("copy of 100 MB: {:.2f} ms, {:.2f} GB/s\n", copy * 1e3, 2 * kBytes / copy / 1e9);
  for (const Chain& c : chains) {
    const double of_copy = c.fused.seconds() / copy, gain = c.apart.seconds() / c.fused.seconds();
    if (options.json) {
      fmt::print(
          R"({{"bench": "fusion", "chain": "{}", "threads": {}, "bytes": {}, "ms": {:.4f}, "of_copy": {:.4f}, "apart_ms": {:.4f}}})"
          "\n",
          c.name, options.threads, c.fused.bytes, c.fused.seconds() * 1e3, of_copy, c.apart.seconds() * 1e3);
    } else {
      fmt::print("{:<40}{:8.2f} ms{:7.2f} x copy ({:.2f} by bytes){:8.2f} GB/s, apart {:8.2f} ms ({:.1f} x)\n", c.name,
                 c.fused.seconds() * 1e3, of_copy, c.fused.bytes / (2 * kBytes),
                 c.fused.bytes / c.fused.seconds() / 1e9, c.apart.seconds() * 1e3, gain);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const ThreadScope threads(options.threads);
  const Tensor x = uniform({kCount}, {}), y = uniform({kCount}, {});
  auto plain = copies(x, y, options.pieces);
  auto made = chains(options);
  add_norms(made, options);
  std::vector<Case*> all;
  for (auto& c : plain) all.push_back(&c);
  for (auto& c : made) all.push_back(&c.fused), all.push_back(&c.apart);
  std::mt19937 random(1);
  for (int round = 0; round < options.rounds; ++round) {
    std::shuffle(all.begin(), all.end(), random);
    for (Case* c : all) c->time(round > 0);  // at first there are plans and pages to make
  }
  report(plain, made, options);
}
