#include "starling/runtime/placed/placed.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/graph/placement/cut.h"
#include "starling/kernels/kernel_table.h"
#include "starling/runtime/placed/placed_part.h"

namespace starling {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// True if a device has a kernel for a node: on the CPU by the kernel table, elsewhere by dtype too. Ops outside the
// table are planned by the lowering, for the CPU only.
bool supports(const graph::Graph& graph, graph::NodeId id, const graph::PlacedDevice& device) {
  const graph::Node& node = graph.node(id);
  const DeviceKind kind = device.device.kind;
  if (kind == DeviceKind::null || kind == DeviceKind::cpu || node.op->view) return true;
  if (kernels::kernel_table().find(*node.op, kind).empty()) return false;
  std::vector<kernels::ArgDesc> in, out;
  for (graph::ValueId value : node.in) in.push_back(kernels::dense(graph.value(value).type));
  for (graph::ValueId value : node.out) out.push_back(kernels::dense(graph.value(value).type));
  try {
    plan_kernel(*node.op, kind, node.attrs, in, out, {});
    return true;
  } catch (const Error&) {
    return false;
  }
}

class MultiDeviceProgram final : public PlacedProgram {
 public:
  MultiDeviceProgram(const graph::Graph& global, const Container& container, const runtime::BuildOptions& build,
                     graph::PlacementOptions options)
      : build_(build), options_(std::move(options)) {
    share_threads();
    find_home(runtime::program_device(global));
    const graph::ConstraintClasses classes = pass(global);
    fit(container, classes);
    start_threads();
  }

  void run(std::span<const Tensor> inputs, std::span<const Tensor> outputs) override;

  const graph::Graph& graph() const override { return graph_; }
  const graph::DevicePlacement& placement() const override { return placement_; }
  int parts() const override { return static_cast<int>(parts_.size()); }
  const graph::Graph& part(int device) const override { return parts_[at(device)].instance->executable().graph(); }
  std::size_t part_bytes(int device) const override { return static_cast<std::size_t>(parts_[at(device)].bytes()); }

  std::string explain() const override {
    std::string text = fmt::format("placed over {} devices\n", parts_.size());
    text += runtime::describe(reports_) + starling::graph::explain(graph_, placement_, options_);
    for (const auto& p : parts_) text += p.instance->executable().explain();
    return text;
  }
  void set_profiler(Profiler* profiler) override {
    for (auto& p : parts_) p.instance->set_profiler(profiler);
  }
  std::size_t memory_bytes() const override {
    std::size_t bytes = 0;
    for (const auto& p : parts_) bytes += p.instance->memory_bytes();
    return bytes;
  }

 private:
  void share_threads();
  void find_home(Device device);
  graph::ConstraintClasses pass(const graph::Graph& global);
  void fit(const Container& container, const graph::ConstraintClasses& classes);
  void build_parts(const Container& container);
  void check_caps() const;
  void start_threads();
  void run_part(runtime::PlacedPart& part);

  runtime::BuildOptions build_;
  graph::PlacementOptions options_;
  int home_ = 0;
  std::vector<Device> input_devices_;
  std::vector<graph::PassReport> reports_;
  graph::Graph graph_;
  graph::DevicePlacement placement_;
  std::unique_ptr<runtime::Transfers> transfers_;
  std::vector<runtime::PlacedPart> parts_;
};

void MultiDeviceProgram::share_threads() {
  const int threads = build_.program.all_threads();
  const auto is_cpu = [](const graph::PlacedDevice& d) { return d.device.kind == DeviceKind::cpu; };
  const auto cpus = std::count_if(options_.devices.begin(), options_.devices.end(), is_cpu);
  for (auto& device : options_.devices) {
    if (device.threads == 0) device.threads = std::max(1, threads / std::max(1, static_cast<int>(cpus)));
  }
}

void MultiDeviceProgram::find_home(Device device) {
  std::string names;
  for (std::size_t d = 0; d < options_.devices.size(); ++d) {
    for (std::size_t e = 0; e < d; ++e) {
      check(options_.devices[e].device != options_.devices[d].device,
            "[placed] expected distinct devices, got {} twice", to_string(options_.devices[d].device));
    }
    names += (d ? ", " : "") + to_string(options_.devices[d].device);
    if (options_.devices[d].device == device) home_ = static_cast<int>(d);
  }
  check(!options_.devices.empty() && options_.devices[at(home_)].device == device,
        "[placed] expected {}, where the program's operands lie, among the devices, got {}", to_string(device), names);
}

// The passes see the whole graph, with each node's constraint class as its device, so they do not join nodes of
// different devices. Updates are not fused, so that each can run where its variable is.
graph::ConstraintClasses MultiDeviceProgram::pass(const graph::Graph& global) {
  graph::ConstraintClasses classes = find_classes(global, options_);
  constexpr std::size_t kMostClasses = 256;
  check(classes.classes.size() <= kMostClasses, "[placed] expected at most {} separate constraints, got {}",
        kMostClasses - 1, classes.classes.size() - 1);
  graph::Graph marked = global;
  for (graph::ValueId input : global.inputs) input_devices_.push_back(global.maker(input).device);
  for (graph::NodeId id = 0; id < marked.size(); ++id) {
    graph::Node& node = marked.node(id);
    node.pinned = false;
    const int own = classes.of_node[at(id)], asked = classes.classes[at(own)].device;
    node.device = {options_.devices[at(asked < 0 ? home_ : asked)].device.kind, static_cast<std::uint8_t>(own)};
  }
  auto disable = build_.program.disable;
  disable.insert("fused_optimizer");
  graph::PipelineResult passed = run_passes(marked, {}, disable);
  reports_ = std::move(passed.reports);
  graph_ = std::move(passed.graph);
  classes.of_node.assign(graph_.nodes().size(), 0);
  for (graph::NodeId id = 0; id < graph_.size(); ++id) classes.of_node[at(id)] = graph_.node(id).device.index;
  for (std::size_t i = 0; i < graph_.inputs.size(); ++i)
    graph_.node(graph_.value(graph_.inputs[i]).node).device = input_devices_[i];
  return classes;
}

// Scratch and arena fragmentation are known once the parts are built: where they do not fit, values get less room and
// are placed again.
void MultiDeviceProgram::fit(const Container& container, const graph::ConstraintClasses& classes) {
  graph::PlacementFacts facts{home_, supports, std::vector<std::int64_t>(options_.devices.size(), 0)};
  constexpr int kMostTries = 6;
  for (int tried = 1;; ++tried) {
    placement_ = place(graph_, classes, options_, facts);
    build_parts(container);
    bool fits = true;
    for (std::size_t d = 0; d < parts_.size(); ++d) {
      const auto cap = options_.devices[d].memory_cap, bytes = parts_[d].bytes();
      if (cap == 0 || bytes <= cap) continue;
      fits = false;
      facts.reserved[d] += bytes - cap;
    }
    if (fits) break;
    if (tried == kMostTries) check_caps();
  }
  for (graph::NodeId id = 0; id < graph_.size(); ++id) {
    const int device = placement_.of_node[at(id)];
    graph_.node(id).device = options_.devices[at(device < 0 ? home_ : device)].device;
  }
}

void MultiDeviceProgram::check_caps() const {
  for (std::size_t d = 0; d < parts_.size(); ++d) {
    const auto cap = options_.devices[d].memory_cap, bytes = parts_[d].bytes();
    if (cap == 0 || bytes <= cap) continue;
    fail("[placed] expected at most {} bytes on {}, got {} ({} of variables, {} of values and scratch): {} too many",
         cap, to_string(options_.devices[d].device), bytes, parts_[d].variable_bytes,
         parts_[d].instance->memory_bytes(), bytes - cap);
  }
}

void MultiDeviceProgram::build_parts(const Container& container) {
  parts_.clear();
  auto cuts = cut(graph_, placement_, options_, home_);
  transfers_ = std::make_unique<runtime::Transfers>(cuts);
  for (std::size_t d = 0; d < cuts.size(); ++d) {
    parts_.push_back(
        build_part(std::move(cuts[d]), options_.devices[d], static_cast<int>(d), container, *transfers_, build_));
  }
}

void MultiDeviceProgram::start_threads() {
  for (std::size_t d = 0; d < parts_.size(); ++d) {
    const auto& part_graph = parts_[d].instance->executable().graph();
    if (static_cast<int>(d) == home_ || part_graph.nodes().empty()) continue;
    parts_[d].thread = std::make_unique<runtime::LaneThread>([this, d] { run_part(parts_[d]); });
  }
}

void MultiDeviceProgram::run_part(runtime::PlacedPart& part) {
  try {
    part.run();
  } catch (const std::exception& error) {
    transfers_->rendezvous().cancel(error.what());
    throw;
  } catch (...) {
    transfers_->rendezvous().cancel("an exception of unknown type");
    throw;
  }
}

void MultiDeviceProgram::run(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  check(inputs.size() == input_devices_.size(), "[run] expected {} inputs, got {}", input_devices_.size(),
        inputs.size());
  for (auto& p : parts_) {
    p.inputs.clear();
    for (int index : p.input_indices) p.inputs.push_back(inputs[at(index)]);
  }
  parts_[at(home_)].outputs.assign(outputs.begin(), outputs.end());
  transfers_->rendezvous().reset();
  for (auto& p : parts_) {
    if (p.thread) p.thread->start();
  }
  std::exception_ptr error, cancelled;
  const auto note = [&](auto&& step) {
    try {
      step();
    } catch (const runtime::Cancelled&) {
      if (!cancelled) cancelled = std::current_exception();
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  };
  note([&] { run_part(parts_[at(home_)]); });
  for (auto& p : parts_) {
    if (p.thread) note([&] { p.thread->finish(); });
  }
  // Releases the caller's tensors, so that results can be reused once the caller has released them too.
  for (auto& p : parts_) {
    p.inputs.clear();
    p.outputs.clear();
  }
  if (error) std::rethrow_exception(error);
  if (cancelled) std::rethrow_exception(cancelled);
}

class Placed final : public runtime::Strategy {
 public:
  explicit Placed(graph::PlacementOptions options) : options_(std::move(options)) {}
  std::string name() const override { return fmt::format("placed({} devices)", options_.devices.size()); }
  std::unique_ptr<runtime::Program> build(const graph::Graph& global, const Container& container,
                                          const runtime::BuildOptions& options) override {
    check(
        options.program.memory_budget == 0 && options.program.branches == 1,
        "[placed] expected neither a memory budget nor branches: devices have memory caps and lanes of their own; got "
        "a budget of {} bytes and {} branches",
        options.program.memory_budget, options.program.branches);
    return build_placed(global, container, options, options_);
  }

 private:
  graph::PlacementOptions options_;
};

}  // namespace

std::unique_ptr<PlacedProgram> build_placed(const graph::Graph& global, const Container& container,
                                            const runtime::BuildOptions& options,
                                            const graph::PlacementOptions& placement) {
  return std::make_unique<MultiDeviceProgram>(global, container, options, placement);
}

std::shared_ptr<runtime::Strategy> placed(graph::PlacementOptions options) {
  return std::make_shared<Placed>(std::move(options));
}

}  // namespace starling
