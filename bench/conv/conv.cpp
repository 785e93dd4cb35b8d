// Times one pass of a convolution at a time, as asked on standard input, so that another library can be measured in
// between (bench/conv_compare.py). A request is one line:
//   forward|data|weight  batch channels h w  out kh kw  stride padding dilation groups  threads repeats
// and the answer the least and the median milliseconds of the repeats and the kernel's name. One thread is timed by its
// processor time, which other programs on the machine disturb less; several by the clock.
#include "starling/ops/conv.h"

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/apply.h"
#include "starling/ops/registry.h"

namespace {

using namespace starling;

double milliseconds(bool processor) {
  timespec now{};
  clock_gettime(processor ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

struct alignas(64) Line {
  float values[16];
};

class Buffer {
 public:
  explicit Buffer(std::int64_t count) : lines_(static_cast<std::size_t>(count) / 16 + 2) {
    for (std::int64_t i = 0; i < count; ++i) data()[i] = static_cast<float>(i * 7919 % 1009) / 1009 - 0.5F;
  }
  float* data() { return lines_[0].values; }

 private:
  std::vector<Line> lines_;
};

struct Request {
  std::string pass;
  Shape x{}, w{};
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  int threads = 1, repeats = 1;
};

bool read(std::istream& from, Request& r) {
  std::string line;
  if (!std::getline(from, line)) return false;
  std::istringstream text(line);
  r = {};
  text >> r.pass;
  r.x = {0, 0, 0, 0};
  r.w = {0, 0, 0, 0};
  for (int i : {0, 1, 2, 3}) text >> r.x[i];
  for (int i : {0, 2, 3}) text >> r.w[i];
  text >> r.stride >> r.padding >> r.dilation >> r.groups >> r.threads >> r.repeats;
  check(!text.fail() && r.groups >= 1 && r.repeats >= 1, "[bench] expected a request, got '{}'", line);
  r.w[1] = r.x[1] / r.groups;
  return true;
}

void answer(const Request& r) {
  const ThreadScope scope(r.threads);
  const Pair stride{r.stride, r.stride}, padding{r.padding, r.padding}, dilation{r.dilation, r.dilation};
  const Conv2dAttrs forward{stride, padding, dilation, r.groups, {}};
  const OpDef& conv = find_op("conv2d");
  const TensorType x{DType::f32, r.x}, w{DType::f32, r.w};
  const TensorType sides[] = {x, w};
  const TensorType y = infer(conv, sides, forward)[0];
  const bool data = r.pass == "data", weight = r.pass == "weight";
  const OpDef& op = data ? find_op("conv2d_backward_input") : weight ? find_op("conv2d_backward_weight") : conv;
  const Attrs attrs =
      data || weight ? Attrs(Conv2dGradAttrs{data ? r.x : r.w, stride, padding, dilation, r.groups}) : Attrs(forward);
  const std::vector<ArgDesc> in = {dense(data || weight ? y : x), dense(weight ? x : w)};
  const std::vector<ArgDesc> out = {dense(data ? x : weight ? w : y)};
  const Planned planned = plan_kernel(op, DeviceKind::cpu, attrs, in, out, {.threads = r.threads});
  Buffer first(in[0].shape.numel()), second(in[1].shape.numel()), result(out[0].shape.numel());
  Buffer scratch(static_cast<std::int64_t>(planned.plan->scratch_bytes / sizeof(float)) + 16);
  void* operands[] = {first.data(), second.data()};
  void* results[] = {result.data()};
  RunContext context;
  std::vector<double> times;
  for (int i = 0; i < r.repeats + 1; ++i) {
    const double start = milliseconds(r.threads == 1);
    planned.plan->run({operands, results, scratch.data(), context});
    times.push_back(milliseconds(r.threads == 1) - start);
  }
  times.erase(times.begin());  // the first brings memory in
  std::sort(times.begin(), times.end());
  std::cout << fmt::format("{:.6f} {:.6f} {}", times.front(), times[times.size() / 2], planned.kernel) << std::endl;
}

}  // namespace

int main() {
  Request request;
  while (read(std::cin, request)) answer(request);
}
