#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "starling/base/clock.h"
#include "starling/base/file/file.h"
#include "starling/base/parallel.h"
#include "starling/cli/bench/bench_memory.h"
#include "starling/cli/bench/bench_net.h"
#include "starling/cli/bench/bench_ranks.h"
#include "starling/cli/bench/planned_step.h"
#include "starling/cli/commands.h"
#include "starling/dist/comm/backend.h"
#include "starling/graph/pass.h"
#include "starling/graph/printer.h"
#include "starling/tensor/allocator.h"
#include "starling/train/loop/precision.h"
#include "starling/zoo/zoo.h"

namespace starling::cli {
namespace {

constexpr int kWarmUpSteps = 5;
constexpr int kDeviceSlice = 50;  // steps between synchronisations with an asynchronous device

struct BenchArguments : BenchOptions {
  std::string export_file;
  std::string import_file;
  int losses = 0;
  bool json = false;
  bool list = false;
  bool explain = false;
  bool profile = false;
  bool memory = false;
  bool compile_only = false;
  std::string trace_file;
  std::vector<double> peak;  // GFLOP/s, GB/s; empty: measured
  bool on_request = false;
  BenchRankOptions ranks;

  bool profiles() const { return profile || memory || !trace_file.empty(); }
};

struct Timing {
  double step_ms = 0;  // median
  double p10_ms = 0;
  std::int64_t steps = 0;
};

double percentile(const std::vector<double>& sorted, double share) {
  return sorted[std::min(sorted.size() - 1, static_cast<std::size_t>(share * static_cast<double>(sorted.size())))];
}

// Synchronises by reading the result; on a CPU the step has ended when it returns.
void run_steps(BenchNet& net, int steps) {
  Tensor result;
  for (int i = 0; i < steps; ++i) result = net.step();
  if (net.device().kind == DeviceKind::cuda) static_cast<void>(to(result, kCpu));
}

Timing summary(std::vector<double>& times, int slice) {
  std::sort(times.begin(), times.end());
  return {percentile(times, 0.5), percentile(times, 0.1), static_cast<std::int64_t>(times.size()) * slice};
}

Timing time_steps(BenchNet& net, double seconds) {
  run_steps(net, kWarmUpSteps);
  const int slice = net.device().kind == DeviceKind::cuda ? kDeviceSlice : 1;
  const auto end = SteadyClock::now() + std::chrono::duration<double>(seconds);
  std::vector<double> times;
  for (auto start = SteadyClock::now(); times.empty() || start < end; start = SteadyClock::now()) {
    run_steps(net, slice);
    times.push_back(milliseconds_since(start) / slice);
  }
  return summary(times, slice);
}

Timing time_steps(BenchNet& net, std::int64_t steps) {
  std::vector<double> times;
  for (std::int64_t i = 0; i < steps; ++i) {
    const auto start = SteadyClock::now();
    run_steps(net, 1);
    times.push_back(milliseconds_since(start));
  }
  return summary(times, 1);
}

// Number of steps, equal on all ranks: about as many as rank 0 makes in this time. Also warms up.
std::int64_t steps_in(double seconds, BenchNet& net, BenchRanks& ranks) {
  run_steps(net, kWarmUpSteps);
  const Timing timing = time_steps(net, std::int64_t{kWarmUpSteps});
  return ranks.agree(std::max<std::int64_t>(1, static_cast<std::int64_t>(1e3 * seconds / timing.step_ms)));
}

// Serves a program that interleaves several benchmarks: each input line is a number of steps, each answer a line. Ranks
// get the same numbers; each answers for itself.
void answer_requests(BenchNet& net, const BenchRanks& ranks) {
  run_steps(net, kWarmUpSteps);
  fmt::print("{}\n", nlohmann::ordered_json{{"rank", ranks.rank()}, {"backend", ranks.backend()}}.dump());
  std::fflush(stdout);
  for (std::int64_t steps = 0; std::cin >> steps;) {
    if (steps < 1) throw UsageError(fmt::format("[bench] expected at least 1 step, got {}", steps));
    run_steps(net, 1);
    const auto start = SteadyClock::now();
    const Timing timing = time_steps(net, steps);
    const double mean = milliseconds_since(start) / static_cast<double>(steps);
    fmt::print("{}\n", nlohmann::ordered_json{{"rank", ranks.rank()},
                                              {"steps", steps},
                                              {"mean_ms", mean},
                                              {"step_ms", timing.step_ms},
                                              {"p10_ms", timing.p10_ms}}
                           .dump());
    std::fflush(stdout);
  }
}

double megabytes(std::int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

void print_timing(const BenchArguments& options, const BenchNet& net, const BenchRanks& ranks, const Timing& timing,
                  const BenchMemory& memory) {
  const double samples_per_s = static_cast<double>(net.batch() * ranks.world()) / timing.step_ms * 1e3;
  if (options.json) {
    nlohmann::ordered_json json = {{"net", options.net},
                                   {"batch", net.batch()},
                                   {"threads", num_threads()},
                                   {"device", options.device},
                                   {"dtype", options.precision == "f32" ? options.dtype : options.precision},
                                   {"phase", options.phase},
                                   {"mode", options.mode},
                                   {"step_ms", timing.step_ms},
                                   {"p10_ms", timing.p10_ms},
                                   {"samples_per_s", samples_per_s},
                                   {"peak_bytes", memory.peak},
                                   {"program_bytes", memory.program},
                                   {"variable_bytes", memory.variables},
                                   {"rss_bytes", memory.rss}};
    if (!ranks.alone()) json.update({{"world", ranks.world()}, {"backend", ranks.backend()}});
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print(
      "{} {} {}, batch {}{}, {} threads, {} {}: {:.4f} ms a step (p10 {:.4f}, {} steps), {:.0f} samples/s\n"
      "memory: peak {:.1f} MB, arena and scratch {:.1f} MB, variables {:.1f} MB, process at most {:.1f} MB above its "
      "start\n",
      options.net, options.mode, options.phase, net.batch(),
      ranks.alone() ? "" : fmt::format(" on each of {} ranks over {}", ranks.world(), ranks.backend()), num_threads(),
      options.device, options.dtype, timing.step_ms, timing.p10_ms, timing.steps, samples_per_s, megabytes(memory.peak),
      megabytes(memory.program), megabytes(memory.variables), megabytes(memory.rss));
}

void print_losses(const BenchArguments& options, BenchNet& net) {
  std::vector<double> losses;
  for (int i = 0; i < options.losses; ++i) losses.push_back(net.step().item());
  fmt::print("{}\n", nlohmann::ordered_json{{"net", options.net}, {"losses", losses}}.dump());
}

void print_list() {
  for (const auto& name : zoo::nets().names()) {
    const zoo::Sized sized = zoo::nets().bench(name);
    fmt::print("{:<16} batch {:>3}, samples {}. {}\n", name, sized.batch, to_string(sized.net.make().fields[0].sample),
               sized.net.kind->doc);
  }
}

void check_options(const BenchArguments& options) {
  if (options.net.empty())
    throw UsageError("[bench] expected the name of a network (starling bench --list has them), got none");
  if (options.losses > 0 && options.phase != "train")
    throw UsageError("[bench] expected --phase train with --losses, got forward");
  const bool files = options.losses > 0 || !options.export_file.empty();
  if (files + options.compile_only + options.profiles() + options.explain > 1)
    throw UsageError(
        "[bench] expected one kind of answer, got several of --losses or --export, --compile-only, --explain, and "
        "--profile, --trace or --memory");
  if (options.mode != "compiled" && (options.profiles() || options.compile_only))
    throw UsageError(
        "[bench] expected --mode compiled with --profile, --trace, --memory and --compile-only, got eager");
  if (options.on_request && (files || options.compile_only || options.profiles() || options.explain))
    throw UsageError("[bench] expected --on-request alone, got another kind of answer beside it");
  for (const auto& name : options.disable) {
    std::vector<std::string> known{"all"};
    for (const auto& pass : graph::all_passes()) known.emplace_back(pass.name);
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw UsageError(fmt::format("[bench] expected a pass, one of ({}), got '{}'", fmt::join(known, ", "), name));
  }
}

// With several ranks, only the compiled training step can be measured.
void check_ranks(const BenchArguments& options, const BenchRanks& ranks) {
  if (ranks.alone()) return;
  if (options.mode != "compiled" || options.phase != "train")
    throw UsageError(fmt::format("[bench] expected --mode compiled and --phase train with {} ranks, got {} and {}",
                                 ranks.world(), options.mode, options.phase));
  if (options.losses > 0 || !options.export_file.empty() || !options.import_file.empty() || options.compile_only)
    throw UsageError(
        "[bench] expected a process alone with --losses, --export, --import and --compile-only, got one of several "
        "ranks");
}

runtime::Peak measured_peak(const BenchArguments& options, const BenchNet& net, DType dtype) {
  if (net.device().kind == DeviceKind::cpu) return runtime::measure_peak(dtype, num_threads());
  const Precision precision = parse_precision(options.precision);
  return runtime::measure_device_peak(net.device(), precision == Precision::f32   ? dtype
                                                    : precision == Precision::f16 ? DType::f16
                                                                                  : DType::bf16);
}

void print_profile(const BenchArguments& options, BenchNet& net, BenchRanks& ranks) {
  const std::int64_t steps = steps_in(options.seconds, net, ranks);
  Profiler profiler(1 << 20);
  const auto began = Profiler::Clock::now();
  net.compiled().set_profiler(&profiler);
  for (std::int64_t i = 0; i < steps; ++i) net.step();
  net.compiled().set_profiler(nullptr);
  if (options.profile && ranks.leads()) {
    const runtime::Peak peak = options.peak.empty() ? measured_peak(options, net, profiler.programs().front()->dtype)
                                                    : runtime::Peak{options.peak[0] * 1e9, options.peak[1] * 1e9};
    fmt::print("{} {} steps of {}, {} threads\n{}", steps, options.phase, options.net, num_threads(),
               profiler.table(peak));
  }
  if (options.memory && ranks.leads()) fmt::print("{}", profiler.memory());
  if (options.trace_file.empty()) return;
  const std::string trace = ranks.trace(profiler, began);
  if (ranks.leads()) write_file_atomically(options.trace_file, trace).value();
}

void measure(const BenchArguments& options, BenchRanks& ranks) {
  const ThreadScope threads(options.threads > 0 ? options.threads : std::max(1, num_threads() / ranks.here()));
  if (options.explain && ranks.alone()) {
    std::cout << PlannedStep(options).print();
    return;
  }
  const MemoryWatch watch;
  BenchNet net(options);
  if (!options.import_file.empty()) net.import_from(options.import_file);
  if (!options.export_file.empty()) net.export_to(options.export_file);
  if (options.losses > 0) print_losses(options, net);
  if (options.losses > 0 || !options.export_file.empty()) return;
  if (options.compile_only) {
    net.compiled().prepare(net.arguments());
    std::cout << net.compiled().compile_times().print();
    return;
  }
  if (options.profiles()) return print_profile(options, net, ranks);
  if (options.on_request) return answer_requests(net, ranks);
  if (options.explain) {
    net.step();
    if (ranks.leads()) std::cout << net.compiled().graph() << net.compiled().explain();
    return;
  }
  allocator(net.device()).reset_peak();
  const Timing timing =
      ranks.alone() ? time_steps(net, options.seconds) : time_steps(net, steps_in(options.seconds, net, ranks));
  if (ranks.leads()) print_timing(options, net, ranks, timing, watch.since(net));
}

int run_bench(const BenchArguments& options) {
  if (options.list) {
    print_list();
    return kOk;
  }
  check_options(options);
  BenchRanks ranks(options.ranks);
  BenchArguments own = options;
  own.strategy = ranks.strategy();
  try {
    check_ranks(own, ranks);
    measure(own, ranks);
  } catch (const std::exception& error) {
    ranks.give_up(error.what());
    throw;
  }
  return kOk;
}

}  // namespace
}  // namespace starling::cli

namespace starling {

void register_command_bench(cli::Commands& into) {
  auto [app, o] = into.add<cli::BenchArguments>(
      "bench", "Measures a forward pass or a training step of a network",
      {{"bench lenet", "a training step of LeNet: time, samples/s, memory"},
       {"bench resnet18 --phase forward --batch 1 --threads 1", "the latency of one image"},
       {"bench lenet --profile", "where the time goes, op by op"},
       {"launch -n 2 -- starling bench lenet", "a step of two ranks, each with its batch"},
       {"bench --list", "the networks"}},
      cli::run_bench);
  app.add_option("net,--net", o.net, "Name of a network");
  app.add_flag("--list", o.list, "Lists the networks");
  app.add_option("--batch", o.batch, "Samples in a batch; 0: as in the published figures")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--threads", o.threads, "0: all")->check(CLI::Range(0, 1024));
  app.add_option("--device", o.device, "cpu or cuda")->capture_default_str();
  app.add_option("--dtype", o.dtype, "f32 or f64")->capture_default_str();
  app.add_option("--precision", o.precision, "What products and convolutions compute in: f32, bf16 or f16")
      ->capture_default_str();
  app.add_option("--phase", o.phase, "forward or train")
      ->check(CLI::IsMember({"forward", "train"}))
      ->capture_default_str();
  app.add_option("--mode", o.mode, "eager or compiled")
      ->check(CLI::IsMember({"eager", "compiled"}))
      ->capture_default_str();
  app.add_option("--seconds", o.seconds, "How long to measure")->check(CLI::Range(0.0, 1e6))->capture_default_str();
  app.add_flag("--json", o.json, "One JSON line for programs");
  app.add_option("--disable", o.disable, "Leaves out a pass, or all")->allow_extra_args(false);
  auto* explain = app.add_flag(
      "--explain", o.explain,
      "Prints the compiled program and the memory of a step instead of measuring it; takes none for weights");
  app.add_option("--budget", o.budget_mb, "MB for values; what does not fit is computed again. 0: no bound")
      ->check(CLI::Range(0.0, 1e9));
  app.add_option("--branches", o.branches, "Lanes for independent branches, which share the threads")
      ->check(CLI::Range(1, graph::kMostBranches));
  app.add_flag("--compile-only", o.compile_only, "Prints how long compiling takes, stage by stage")->excludes(explain);
  app.add_flag("--profile", o.profile, "Prints a table by op: time, share, GFLOP/s, GB/s, share of the peak");
  app.add_flag("--memory", o.memory, "Prints the most memory in use and the values alive then");
  app.add_option("--trace", o.trace_file, "Writes a trace for Perfetto or chrome://tracing to this file");
  app.add_option("--peak", o.peak, "GFLOP/s and GB/s to compare with, instead of measuring them")
      ->expected(2)
      ->check(CLI::PositiveNumber);
  app.add_option("--backend", o.ranks.backend, "Between ranks: " + dist::either(dist::backend_choices()))
      ->capture_default_str();
  app.add_option("--overlap", o.ranks.overlap, "Of reductions with the backward pass: on or off")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  app.add_option("--bucket-mb", o.ranks.bucket_mb, "Megabytes of small gradients that are reduced together")
      ->check(CLI::Range(0.0, 4096.0))
      ->capture_default_str();
  app.add_option("--codec", o.ranks.codec, "Wire form of gradients between ranks: fp16, one_bit, {name: top_k, ...}")
      ->capture_default_str();
  app.add_option("--set", o.set, "Sets an option of the network, sparse=true (starling zoo NET has them)")
      ->allow_extra_args(false);
  app.add_flag("--on-request", o.on_request, "Reads numbers of steps, a line each, and answers each with its time");
  app.add_option("--export", o.export_file, "Writes parameters and batch to this safetensors file")->excludes(explain);
  auto* import = app.add_option("--import", o.import_file, "Reads parameters and batch from such a file");
  app.add_option("--losses", o.losses, "Prints the losses of so many training steps")
      ->needs(import)
      ->check(CLI::Range(1, 1'000'000));
}

}  // namespace starling
