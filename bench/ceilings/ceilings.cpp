// How fast oneDNN's bare primitives run on the layer shapes of the benchmark networks. See README.md.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <set>

#include "machine.h"
#include "measure.h"
#include "networks.h"

namespace {

using namespace starling::ceilings;

struct Options {
  bool shapes = false;
  bool machine = false;
  std::vector<int> threads{1, 2};
  double seconds = 0.03;
  std::string network;
};

void print_shapes(const std::vector<Entry>& entries) {
  std::cout << "network,layer,count,arithmetic,needs_input_gradient,forward_gflop\n";
  for (const Entry& e : entries) {
    std::cout << fmt::format("{},{},{},{:d},{:d},{:.6g}\n", e.network, name(e.layer), e.count, is_arithmetic(e.layer),
                             !e.layer.first, flops(e.layer, graph::Pass::forward) * 1e-9);
  }
}

void print_machine(int threads) {
  std::cout << fmt::format("peak {},1,forward,{},fma,,{:.1f},,\n", vector_target(), threads, peak_gflops(threads));
  std::cout << fmt::format("triad,1,forward,{},memory,,,{:.1f},\n", threads, triad_gbs(threads));
}

void print_layer(const Layer& layer, int threads, double seconds) {
  for (const Timing& t : measure(layer, threads, seconds)) {
    std::cout << fmt::format("{},{:d},{},{},{},{:.5f},{:.1f},{:.1f},{:.5f}\n", name(layer), !layer.first, name(t.pass),
                             threads, t.implementation, t.ms, flops(layer, t.pass) / t.ms * 1e-6, t.bytes / t.ms * 1e-6,
                             t.wall_ms);
  }
}

void print_timings(const std::vector<Entry>& entries, const Options& options) {
  const dnnl_version_t& v = *dnnl_version();
  std::cout << fmt::format("# oneDNN {}.{}.{}\n", v.major, v.minor, v.patch);
  std::cout << "layer,needs_input_gradient,pass,threads,implementation,ms,gflops,gbs,wall_ms\n";
  for (const int threads : options.threads) {
    if (options.machine) print_machine(threads);
  }
  std::set<Layer> done;
  for (const Entry& e : entries) {
    if (!options.network.empty() && e.network != options.network) continue;
    if (!done.insert(e.layer).second) continue;
    for (const int threads : options.threads) print_layer(e.layer, threads, options.seconds);
    std::cout.flush();
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Times oneDNN's primitives on the shapes of the benchmark networks; prints CSV");
  app.add_flag("--shapes", options.shapes, "print the layer shapes of every network and stop");
  app.add_flag("--machine", options.machine, "measure the machine's peak and memory bandwidth too");
  app.add_option("--threads", options.threads, "thread counts to measure")->capture_default_str();
  app.add_option("--seconds", options.seconds, "how long each primitive is repeated")->capture_default_str();
  app.add_option("--network", options.network, "only the shapes of this network (none: no shapes)");
  CLI11_PARSE(app, argc, argv);
  if (options.shapes) {
    print_shapes(networks());
  } else {
    print_timings(networks(), options);
  }
}
