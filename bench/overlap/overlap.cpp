// How much of a slow collective hides behind compute: two thread ranks, each reduction given 5 ms of latency, beside a
// chain of products that does not need it. Prints the step with and without the schedule pass, interleaved.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "starling/dist/comm/faulty/faulty_comm.h"
#include "starling/starling.h"

namespace {

namespace sl = starling;
using Clock = std::chrono::steady_clock;

class Step {
 public:
  Step(const sl::Tensor& weight, int latency_ms, bool schedule) : weight_(weight) {
    const auto slow = [latency_ms](std::unique_ptr<sl::Comm> comm) {
      return sl::dist::make_faulty(std::move(comm),
                                   sl::dist::FaultPlan{.latency = std::chrono::milliseconds(latency_ms)});
    };
    sl::CompileOptions options{
        .strategy = sl::data_parallel({.workers = 2, .threads_per_worker = 1, .checked = false, .decorate = slow})};
    if (!schedule) options.disable = {"schedule"};
    step_ =
        std::make_unique<sl::CompiledFunction>([this](std::span<const sl::Tensor> in) { return body(in[0]); }, options);
  }

  double milliseconds(const sl::Tensor& x) {
    const auto start = Clock::now();
    step_->call({&x, 1});
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }

 private:
  sl::TensorList body(const sl::Tensor& x) const {
    const sl::Tensor early = sl::exp(sl::mul(sl::sum(x), 1e-6));
    sl::Tensor y = x;
    for (int i = 0; i < 40; ++i) y = sl::matmul(y, weight_);
    return {sl::add(early, sl::mul(sl::max(y, {.axes = {1}}), 0.0))};
  }

  sl::Tensor weight_;
  std::unique_ptr<sl::CompiledFunction> step_;
};

double median(std::vector<double>& times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int latency = argc > 1 ? std::atoi(argv[1]) : 5;
  sl::Tensor weight = sl::normal({640, 640}, {.stddev = 0.04});
  weight.set_name("weight");
  const sl::Tensor x = sl::normal({128, 640});
  Step scheduled(weight, latency, true), plain(weight, latency, false);
  std::vector<double> with, without;
  for (int i = 0; i < 40; ++i) {
    const double a = scheduled.milliseconds(x), b = plain.milliseconds(x);
    if (i < 5) continue;
    with.push_back(a);
    without.push_back(b);
  }
  const double on = median(with), off = median(without);
  std::printf("latency %d ms: step %.2f ms with the schedule pass, %.2f ms without: %.2f ms hidden\n", latency, on, off,
              off - on);
  return 0;
}
