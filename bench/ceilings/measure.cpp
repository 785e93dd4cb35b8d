#include "measure.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <unordered_map>

#include "plans.h"
#include "starling/base/parallel.h"

namespace starling::ceilings {
namespace {

using Clock = std::chrono::steady_clock;
using Arguments = std::unordered_map<int, dnnl::memory>;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Values of ordinary size, so that no kernel meets denormals.
void fill(const dnnl::memory& memory) {
  std::minstd_rand generator(1);
  std::uniform_real_distribution<float> values(-1, 1);
  auto* data = static_cast<float*>(memory.get_data_handle());
  const std::size_t count = memory.get_desc().get_size() / sizeof(float);
  const std::size_t distinct = std::min<std::size_t>(count, 1 << 16);
  for (std::size_t i = 0; i < distinct; ++i) data[i] = values(generator);
  for (std::size_t i = distinct; i < count; ++i) data[i] = data[i - distinct];
}

// Every argument the primitive knows. Those that an earlier pass of the layer had in the same format are shared with
// it: so a backward pass finds the workspace and the statistics of its forward pass.
Arguments arguments(const kernels::Plan& plan, const dnnl::engine& engine, Arguments& earlier) {
  constexpr int kLastArgument = 300;  // beyond lie the arguments of attributes, of which none is set
  Arguments result;
  for (int argument = 1; argument < kLastArgument; ++argument) {
    const auto format = plan.desc.query_md(dnnl::query::exec_arg_md, argument);
    if (format.get_size() == 0 || argument == plan.refused) continue;
    const auto known = earlier.find(argument);
    if (known == earlier.end() || known->second.get_desc() != format) {
      const dnnl::memory made(format, engine);
      fill(made);
      earlier[argument] = made;
    }
    result.emplace(argument, earlier[argument]);
  }
  return result;
}

double total_bytes(const Arguments& arguments) {
  double bytes = 0;
  for (const auto& [argument, memory] : arguments) {
    if (argument != DNNL_ARG_SCRATCHPAD) bytes += static_cast<double>(memory.get_desc().get_size());
  }
  return bytes;
}

// Processor time each thread has used so far.
std::vector<double> used_seconds(int threads) {
  std::vector<double> used(static_cast<std::size_t>(threads));
  parallel_run(threads, [&](int thread) {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    used[static_cast<std::size_t>(thread)] = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  });
  return used;
}

struct Seconds {
  double busy = 1e30, wall = 1e30;

  void keep_faster(const Seconds& other) {
    busy = std::min(busy, other.busy);
    wall = std::min(wall, other.wall);
  }
};

// The mean of `repeats` runs.
template <class Run>
Seconds timed(Run&& run, int repeats, int threads) {
  const std::vector<double> before = used_seconds(threads);
  const auto start = Clock::now();
  for (int i = 0; i < repeats; ++i) run();
  Seconds result{0, seconds_since(start) / repeats};
  const std::vector<double> after = used_seconds(threads);
  for (std::size_t i = 0; i < after.size(); ++i) result.busy = std::max(result.busy, (after[i] - before[i]) / repeats);
  return result;
}

Seconds fastest_run(const dnnl::primitive& primitive, const Arguments& arguments, dnnl::stream& stream, int threads,
                    double seconds) {
  const auto run = [&] {
    primitive.execute(stream, arguments);
    stream.wait();
  };
  run();  // the first touches memory and fills caches
  const auto start = Clock::now();
  Seconds best = timed(run, 1, threads);
  const int repeats = static_cast<int>(std::clamp(5e-4 / best.busy, 1.0, 1e3));  // the clocks cost a microsecond
  while (seconds_since(start) < seconds) best.keep_faster(timed(run, repeats, threads));
  return best;
}

}  // namespace

std::vector<Timing> measure(const Layer& layer, int threads, double seconds) {
  const ThreadScope scope(threads);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  Arguments earlier;
  std::vector<Timing> result;
  for (const kernels::Plan& plan : plans(layer, engine)) {
    const Arguments given = arguments(plan, engine, earlier);
    const Seconds best = fastest_run(dnnl::primitive(plan.desc), given, stream, threads, seconds);
    result.push_back({plan.pass, plan.desc.impl_info_str(), best.busy * 1e3, best.wall * 1e3, total_bytes(given)});
  }
  return result;
}

}  // namespace starling::ceilings
