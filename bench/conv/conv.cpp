// Times one op at a time, as asked on standard input, so that another library can be measured in between
// (bench/conv_compare.py). A request is one line:
//   op;dtype;threads;repeats;2x3x8x8 4x3x3x3;stride=[1, 1];padding=[1, 1]
// with the shapes of the operands and any attributes. The answer: the least and the median milliseconds of the repeats
// and the kernel's name. One thread is timed by its processor time, which other programs on the machine disturb less;
// several by the clock.
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
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"

namespace {

using namespace starling;

double milliseconds(bool processor) {
  timespec now{};
  clock_gettime(processor ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

struct alignas(64) Line {
  char bytes[64];
};

class Buffer {
 public:
  Buffer(std::int64_t count, DType dtype) : lines_(static_cast<std::size_t>(count) * size_of(dtype) / 64 + 2) {
    for (std::int64_t i = 0; i < count; ++i) {
      const double value = static_cast<double>(i * 7919 % 1009) / 1009 - 0.5;
      if (dtype == DType::f64) static_cast<double*>(data())[i] = value;
      if (dtype == DType::f32) static_cast<float*>(data())[i] = static_cast<float>(value);
    }
  }
  explicit Buffer(std::size_t bytes) : lines_(bytes / 64 + 2) {}
  void* data() { return lines_.data(); }

 private:
  std::vector<Line> lines_;
};

struct Request {
  const OpDef* op = nullptr;
  DType dtype = DType::f32;
  int threads = 1, repeats = 1;
  std::vector<TensorType> in;
  Attrs attrs;
};

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

Request parse(const std::string& line) {
  const auto parts = split(line, ';');
  check(parts.size() >= 5, "[bench] expected op;dtype;threads;repeats;shapes, got '{}'", line);
  Request r;
  r.op = &find_op(parts[0]);
  r.dtype = parts[1] == "f64" ? DType::f64 : DType::f32;
  r.threads = std::stoi(parts[2]);
  r.repeats = std::stoi(parts[3]);
  for (const auto& operand : split(parts[4], ' ')) {
    Shape shape;
    for (const auto& size : split(operand, 'x')) shape.push_back(std::stoll(size));
    r.in.push_back({r.dtype, shape});
  }
  r.attrs = Attrs::defaults(*r.op->attrs);
  for (std::size_t i = 5; i < parts.size(); ++i) {
    const auto equals = parts[i].find('=');
    r.attrs.set(parts[i].substr(0, equals), parts[i].substr(equals + 1));
  }
  return r;
}

void answer(const Request& r) {
  const ThreadScope scope(r.threads);
  std::vector<kernels::ArgDesc> in, out;
  std::vector<Buffer> buffers;
  std::vector<void*> operands, results;
  for (const auto& type : r.in) {
    in.push_back(kernels::dense(type));
    buffers.emplace_back(type.shape.numel(), r.dtype);
    operands.push_back(buffers.back().data());
  }
  for (const auto& type : infer(*r.op, r.in, r.attrs)) {
    out.push_back(kernels::dense(type));
    buffers.emplace_back(type.shape.numel(), r.dtype);
    results.push_back(buffers.back().data());
  }
  const kernels::Planned planned = plan_kernel(*r.op, DeviceKind::cpu, r.attrs, in, out, {.threads = r.threads});
  Buffer scratch(planned.plan->scratch_bytes);
  kernels::RunContext context;
  std::vector<double> times;
  for (int i = 0; i < r.repeats + 1; ++i) {
    const double start = milliseconds(r.threads == 1);
    planned.plan->run({operands.data(), results.data(), scratch.data(), context});
    times.push_back(milliseconds(r.threads == 1) - start);
  }
  times.erase(times.begin());  // the first brings memory in
  std::sort(times.begin(), times.end());
  std::cout << fmt::format("{:.6f} {:.6f} {}", times.front(), times[times.size() / 2], planned.kernel) << std::endl;
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) answer(parse(line));
}
