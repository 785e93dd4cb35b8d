#include <fmt/format.h>
#include <hwy/targets.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "starling/base/parallel.h"
#include "starling/cli/commands.h"
#include "starling/cli/doctor_comm.h"
#include "starling/data/datasets/fashion_mnist.h"
#include "starling/data/formats/example.h"
#include "starling/data/formats/hdf5.h"
#include "starling/data/formats/image.h"
#include "starling/dist/comm/backend.h"
#include "starling/dist/comm/gpu/nccl_comm.h"
#include "starling/dist/ps/wire.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/registry.h"
#include "starling/tensor/device_memory.h"
#include "starling/train/checkpoint/environment.h"
#include "starling/train/monitor/event_writer.h"

namespace starling::cli {
namespace {

// Value of the first line `key : value` of a kernel file; empty if none.
std::string first_value(const char* file, std::string_view key) {
  std::ifstream in(file);
  std::string line;
  while (std::getline(in, line)) {
    if (!line.starts_with(key)) continue;
    const auto begin = line.find_first_not_of(" \t", line.find(':') + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

double gib(const std::string& kib) { return kib.empty() ? 0 : std::stod(kib) / (1 << 20); }

std::string best_target() {
  const auto supported = hwy::SupportedTargets();
  return hwy::TargetName(supported & -supported);  // the lowest bit is the best one
}

void line(std::string_view what, const std::string& found) { fmt::print("{:<12} {}\n", what, found); }

void tell_cuda() {
  if (!built_with_cuda()) {
    line("CUDA", "not built in (needs the CUDA toolkit: cmake --preset cuda)");
  } else if (cuda_device_count() == 0) {
    line("CUDA", "built in, no GPU found (is the driver installed? nvidia-smi shows it)");
  } else {
    line("CUDA", fmt::format("built in, {} GPU(s), {}", cuda_device_count(), dist::has_nccl() ? "NCCL" : "no NCCL"));
  }
}

void tell_tensorboard() {
  line("TensorBoard", train::has_event_writer()
                          ? "event files are written (protobuf built in)"
                          : "no event files (needs libprotobuf-dev and protobuf-compiler when building)");
}

void tell_data() {
  const std::filesystem::path folder = FashionMnistOptions{}.folder;
  const bool found = std::filesystem::exists(folder / "train-images-idx3-ubyte.gz") ||
                     std::filesystem::exists(folder / "train-images-idx3-ubyte");
  line("data",
       found
           ? fmt::format("Fashion-MNIST in {}", folder.string())
           : fmt::format("no Fashion-MNIST in {} (apt install dataset-fashion-mnist, or name its place in data.folder)",
                         folder.string()));
}

void tell_formats() {
  const auto part = [](const char* what, bool there, const char* package) {
    return there ? std::string(what) : fmt::format("no {} (apt install {}, then build again)", what, package);
  };
  line("formats", fmt::format("{}, {}, {}, {}", part("JPEG", data::has_jpeg(), "libjpeg62-turbo-dev"),
                              part("PNG", data::has_png(), "libpng-dev"), part("HDF5", data::has_hdf5(), "libhdf5-dev"),
                              part("TFRecord examples", data::has_example(), "libprotobuf-dev protobuf-compiler")));
}

void tell_comm() {
  std::string text = "threads";
  for (const auto& backend : dist::comm_backends().in_order()) {
    if (backend.missing == nullptr) continue;
    const std::string missing = backend.missing();
    text += missing.empty() ? fmt::format(", {}", backend.title) : fmt::format(", no {}", missing);
  }
  line("ranks", text);
  line("servers", dist::ps::has_wire() ? "ZeroMQ" : "no ZeroMQ (apt install libzmq3-dev, then build again)");
}

int run_doctor(const CommCheck& comm) {
  if (comm.wanted) return check_comm(comm);
  const auto facts = train::environment_facts();
  const std::string model = first_value("/proc/cpuinfo", "model name");
  line("CPU", model.empty() ? "unknown" : model);
  line("ISA",
       fmt::format("{} (the best Highway knows for this CPU: {})", facts.at("isa").get<std::string>(), best_target()));
  line("cores", fmt::format("{}", std::thread::hardware_concurrency()));
  line("threads", fmt::format("{} (OMP_NUM_THREADS changes it)", num_threads()));
  line("memory", fmt::format("{:.1f} GiB, {:.1f} GiB free", gib(first_value("/proc/meminfo", "MemTotal")),
                             gib(first_value("/proc/meminfo", "MemAvailable"))));
  line("version", facts.at("starling").get<std::string>());
  line("compiler", facts.at("compiler").get<std::string>());
  line("ops", fmt::format("{}", op_registry().size()));
  tell_cuda();
  tell_tensorboard();
  tell_formats();
  tell_comm();
  tell_data();
  return kOk;
}

}  // namespace
}  // namespace starling::cli

namespace starling {

void register_command_doctor(cli::Commands& into) {
  auto [app, o] = into.add<cli::CommCheck>(
      "doctor", "Shows what it found on this machine, and how to get what is missing",
      {{"doctor", "a line for each thing found or missing"},
       {"doctor --comm -n 4", "latency and bandwidth between 4 ranks: threads, and processes over each backend"}},
      cli::run_doctor);
  app.add_flag("--comm", o.wanted, "Measures what ranks need to reach each other");
  app.add_option("-n,--ranks", o.ranks, "Number of ranks for --comm")->capture_default_str();
  app.add_option("--backend", o.backend, "threads, " + dist::either(dist::backend_names()) + " alone, for --comm");
}

}  // namespace starling
