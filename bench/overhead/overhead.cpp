// Costs of a tiny op and a tiny training step beside their arithmetic, with one thread, in µs.
//   bench_overhead [--repeats N] [--json] [--only NAME]... [--device cuda]
// On a GPU the calls of one measurement are issued back to back, and the wait for the last of them is part of it.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "starling/starling.h"

namespace sl = starling;

namespace {

struct Case {
  const char* name;
  double target_us;
  int inner;  // calls in one measurement
  std::function<void()> call;
};

struct Times {
  double median_us;
  double p10_us;
};

// Behind everything that was enqueued before.
void wait_for(const sl::Tensor& tensor) { static_cast<void>(sl::to(tensor, sl::kCpu)); }

Times measure(const Case& c, int repeats, const sl::Tensor& here) {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < c.inner; ++i) c.call();
  wait_for(here);
  std::vector<double> times;
  for (int r = 0; r < repeats; ++r) {
    const auto start = Clock::now();
    for (int i = 0; i < c.inner; ++i) c.call();
    wait_for(here);
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count() / c.inner);
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times[times.size() / 10]};
}

// 8-8-8-8 with relu between, batch 8, SGD with momentum.
struct TinyMlp {
  sl::nn::Sequential net;
  sl::Tensor x = sl::normal({8, 8});
  sl::Tensor y = sl::empty({8}, sl::DType::i64);
  std::unique_ptr<sl::optim::Sgd> optimizer;

  explicit TinyMlp(sl::Device device) {
    net.add("fc1", sl::nn::Linear({.in = 8, .out = 8}))
        .add("relu1", sl::nn::Relu())
        .add("fc2", sl::nn::Linear({.in = 8, .out = 8}))
        .add("relu2", sl::nn::Relu())
        .add("fc3", sl::nn::Linear({.in = 8, .out = 8}));
    for (std::int64_t i = 0; i < 8; ++i) y.data<std::int64_t>()[i] = (5 * i + 3) % 8;
    net.to(device);
    x = sl::to(x, device);
    y = sl::to(y, device);
    optimizer = std::make_unique<sl::optim::Sgd>(net.parameters(), sl::optim::SgdOptions{.lr = 0.01, .momentum = 0.9});
  }

  sl::Tensor step(const sl::Tensor& images, const sl::Tensor& labels) {
    auto loss = sl::cross_entropy(net(images), labels);
    loss.backward();
    optimizer->step();
    return loss;
  }
};

void print(const Case& c, const Times& times, sl::Device device, bool json) {
  if (json) {
    const nlohmann::ordered_json row = {{"case", c.name},
                                        {"device", sl::to_string(device)},
                                        {"median_us", times.median_us},
                                        {"p10_us", times.p10_us},
                                        {"target_us", c.target_us}};
    fmt::print("{}\n", row.dump());
  } else {
    fmt::print("{:<24} {:8.3f} µs (p10 {:.3f}), target {} µs{}\n", c.name, times.median_us, times.p10_us, c.target_us,
               times.median_us <= c.target_us ? "" : ": missed");
  }
}

}  // namespace

int main(int argc, char** argv) {
  bool json = false;
  sl::Device device = sl::kCpu;
  int repeats = 100;
  std::vector<std::string_view> only;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--json") json = true;
    if (std::string_view(argv[i]) == "--repeats" && i + 1 < argc) repeats = std::max(1, std::atoi(argv[++i]));
    if (std::string_view(argv[i]) == "--device" && i + 1 < argc)
      device = sl::parse_device(argv[++i]).value_or(sl::kCpu);
    if (std::string_view(argv[i]) == "--only" && i + 1 < argc) only.emplace_back(argv[++i]);
  }
  const sl::ThreadScope one_thread(1);
  const auto drawn = [&](const sl::Shape& shape) { return sl::to(sl::normal(shape), device); };
  const sl::Tensor a = drawn({8});
  const sl::Tensor b = drawn({8});
  const sl::Tensor rows = drawn({2, 4});
  const sl::Tensor halves[] = {drawn({4}), drawn({4})};
  const sl::Tensor image = drawn({1, 1, 4, 4}), filter = drawn({1, 1, 3, 3});
  TinyMlp eager(device);
  TinyMlp compiled(device);
  auto step = sl::compile([&](const sl::Tensor& x, const sl::Tensor& y) { return compiled.step(x, y); });
  const bool gpu = device != sl::kCpu;
  const Case cases[] = {{"add8", gpu ? 4 : 0.6, 2000, [&] { static_cast<void>(sl::add(a, b)); }},
                        {"relu8", 0.6, 2000, [&] { static_cast<void>(sl::relu(a)); }},
                        {"sum8", 1, 2000, [&] { static_cast<void>(sl::sum(rows, {.axes = {1}})); }},
                        {"softmax8", 1, 2000, [&] { static_cast<void>(sl::softmax(rows, 1)); }},
                        {"concat8", 1, 2000, [&] { static_cast<void>(sl::concat(halves)); }},
                        {"slice8", 0.6, 2000,
                         [&] {
                           static_cast<void>(a[{{1, 3}}]);
                         }},
                        {"conv8", 2, 2000,
                         [&] {
                           static_cast<void>(sl::conv2d(image, filter, {}, {.padding = {1, 1}}));
                         }},
                        {"tiny step eager", 60, 100, [&] { static_cast<void>(eager.step(eager.x, eager.y)); }},
                        {"tiny step compiled", 10, 500, [&] { static_cast<void>(step(compiled.x, compiled.y)); }}};
  for (const auto& c : cases) {
    if (only.empty() || std::find(only.begin(), only.end(), c.name) != only.end())
      print(c, measure(c, repeats, a), device, json);
  }
}
