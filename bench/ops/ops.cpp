// One op at a time, checked and timed on request: the Starling side of bench/compare_ops.py. Reads one JSON object a
// line from stdin and answers each with one line:
//   {"do": "prepare", "op": "conv2d", "file": …, "grad": [true, true], "attrs": {"padding": "[1, 1]"}}
//       operands in0, in1, … from a safetensors file; `grad` has one entry an operand: whether it wants a gradient
//       `forward` names the op that serves where no gradient is wanted, when that is another
//   {"do": "values", "file": …, "threads": 2}: one train call, its first output and gradients written to a file
//   {"do": "slice", "phase": "forward" | "train", "seconds": 0.3, "threads": 2} → {"ms": …, "p10_ms": …, "calls": …}
// A forward call is the op alone; a train call is the op and the gradients of its operands that want one, from a
// fixed gradient of its first output.
#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "starling/autograd/autograd.h"
#include "starling/base/parallel.h"
#include "starling/data/formats/safetensors.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/rnn.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"

namespace starling {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

using Call = std::function<TensorList(std::span<const Tensor>)>;

struct Prepared {
  Call call = nullptr;
  Call forward = nullptr;  // the same for forward calls, where another op serves them
  std::vector<Tensor> in{};
  std::vector<Tensor> wanted{};
  Tensor seed{};  // the gradient that flows back into the first output
};

// Numbers without a pattern that an op could cancel, the same on the peer's side.
Tensor seed_for(const Tensor& y) {
  std::vector<double> values(static_cast<std::size_t>(y.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 37 % 101) / 101 - 0.3;
  return from_doubles(values, y.shape(), y.dtype());
}

// One op by its name, or one layer of a recurrent network: (x, w_ih, w_hh, b_ih, b_hh, h0, c0) as PyTorch takes them.
Call call_of(const std::string& name, const json& attributes) {
  if (name == "lstm" || name == "gru") {
    return [layer = name == "lstm" ? lstm : gru](std::span<const Tensor> in) {
      const RnnWeights weights{in[1], in[2], in[3], in[4]};
      return TensorList{layer(in[0], {&weights, 1}, {.h0 = in[5], .c0 = in.size() > 6 ? in[6] : Tensor()}).y};
    };
  }
  const OpDef& op = find_op(name);
  Attrs attrs = Attrs::defaults(*op.attrs);
  for (const auto& [key, value] : attributes.items()) attrs.set(key, value.get<std::string>());
  return [&op, attrs](std::span<const Tensor> in) { return apply(op, in, attrs); };
}

Prepared prepare(const json& request) {
  const auto op = request.at("op").get<std::string>();
  Prepared made{.call = call_of(op, request.at("attrs")),
                .forward = call_of(request.value("forward", op), request.at("attrs"))};
  const auto file = data::SafetensorsFile::open(request.at("file").get<std::string>()).value();
  for (std::size_t i = 0; i < request.at("grad").size(); ++i) {
    const Tensor mapped = file.tensor(fmt::format("in{}", i));
    made.in.push_back(empty(mapped.shape(), mapped.dtype()));
    copy_into(made.in.back(), mapped);
    if (request.at("grad")[i].get<bool>()) made.wanted.push_back(made.in.back().set_requires_grad());
  }
  made.seed = seed_for(made.call(made.in)[0]);
  return made;
}

// The first output, then the gradients.
TensorList train_call(const Prepared& prepared) {
  TensorList out = prepared.call(prepared.in);
  TensorList results{out[0]};
  if (prepared.wanted.empty()) return results;
  for (auto& gradient : gradients({out.data(), 1}, prepared.wanted, {&prepared.seed, 1}))
    results.push_back(std::move(gradient));
  return results;
}

void forward_call(const Prepared& prepared) {
  const NoGrad no_grad;
  prepared.forward(prepared.in);
}

json values(const Prepared& prepared, const json& request) {
  const ThreadScope threads(request.at("threads").get<int>());
  std::vector<NamedTensor> named;
  for (auto& result : train_call(prepared)) named.push_back({fmt::format("out{}", named.size()), result});
  data::write_safetensors(request.at("file").get<std::string>(), named).value();
  return {{"count", named.size()}};
}

json slice(const Prepared& prepared, const json& request) {
  const ThreadScope threads(request.at("threads").get<int>());
  const bool train = request.at("phase") == "train";
  const auto call = [&] { train ? static_cast<void>(train_call(prepared)) : forward_call(prepared); };
  const auto warm = Clock::now() + std::chrono::milliseconds(100);
  for (int i = 0; i < 3 && (i == 0 || Clock::now() < warm); ++i) call();
  std::vector<double> times;
  const auto end = Clock::now() + std::chrono::duration<double>(request.at("seconds").get<double>());
  while (times.empty() || Clock::now() < end) {
    const auto begin = Clock::now();
    call();
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  return {{"ms", times[times.size() / 2]}, {"p10_ms", times[times.size() / 10]}, {"calls", times.size()}};
}

json answer(const json& request, Prepared& prepared) {
  const auto what = request.at("do").get<std::string>();
  if (what == "prepare") {
    prepared = prepare(request);
    return {{"ok", true}};
  }
  check(prepared.call != nullptr, "[bench_ops] expected an op to be prepared first, got '{}'", what);
  if (what == "values") return values(prepared, request);
  check(what == "slice", "[bench_ops] expected prepare, values or slice, got '{}'", what);
  return slice(prepared, request);
}

}  // namespace
}  // namespace starling

int main() {
  starling::Prepared prepared;
  for (std::string line; std::getline(std::cin, line);) {
    nlohmann::json reply;
    try {
      reply = starling::answer(nlohmann::json::parse(line), prepared);
    } catch (const std::exception& error) {
      reply = {{"error", error.what()}};
    }
    fmt::print("{}\n", reply.dump());
    std::fflush(stdout);
  }
}
