#include "starling/runtime/session.h"

#include <algorithm>
#include <list>
#include <mutex>

#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/graph/extract.h"
#include "starling/graph/pass.h"
#include "starling/graph/verifier.h"
#include "starling/kernels/eager.h"
#include "starling/kernels/resources.h"
#include "starling/runtime/execution/instance.h"
#include "starling/runtime/program.h"
#include "starling/runtime/user_options.h"

namespace starling {
namespace {

// Container lock of one run, released while an op waits at a queue.
class RunLock final : public WaitHook {
 public:
  enum class Kind : std::uint8_t { none, shared, exclusive };
  RunLock(std::shared_mutex& mutex, Kind kind) : mutex_(mutex), kind_(kind) { lock(); }
  ~RunLock() override { unlock(); }
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  void before_wait() override { unlock(); }
  void after_wait() override { lock(); }

 private:
  void lock() {
    if (kind_ == Kind::shared) mutex_.lock_shared();
    if (kind_ == Kind::exclusive) mutex_.lock();
  }
  void unlock() {
    if (kind_ == Kind::shared) mutex_.unlock_shared();
    if (kind_ == Kind::exclusive) mutex_.unlock();
  }

  std::shared_mutex& mutex_;
  Kind kind_;
};

// Instance of a program, used by one run at a time.
struct Slot {
  kernels::Resources resources;
  std::unique_ptr<runtime::Instance> instance;
};

struct CompiledPart {
  std::shared_ptr<const runtime::Executable> executable;
  std::vector<graph::PassReport> reports;
  std::mutex mutex;
  std::vector<std::unique_ptr<Slot>> idle;

  RunLock::Kind lock_kind() const {
    if (executable->graph().variables.empty()) return RunLock::Kind::none;
    return executable->assigned().empty() ? RunLock::Kind::shared : RunLock::Kind::exclusive;
  }

  std::unique_ptr<Slot> take() {
    const std::scoped_lock held(mutex);
    if (idle.empty()) return nullptr;
    auto slot = std::move(idle.back());
    idle.pop_back();
    return slot;
  }
  void give_back(std::unique_ptr<Slot> slot) {
    const std::scoped_lock held(mutex);
    idle.push_back(std::move(slot));
  }
};

struct Signature {
  graph::Extraction part;
  int threads = 0;
  bool operator==(const Signature& other) const {
    return part.feeds == other.part.feeds && part.fetches == other.part.fetches && part.targets == other.part.targets &&
           threads == other.threads;
  }
};

}  // namespace

struct Session::State {
  graph::Graph graph;
  Edges edges;
  std::shared_ptr<SharedContainer> container;
  SessionOptions options;
  mutable std::mutex mutex;
  std::list<std::pair<Signature, std::shared_ptr<CompiledPart>>> programs;  // most recently used first

  State(graph::Graph given, std::shared_ptr<SharedContainer> shared, SessionOptions chosen)
      : graph(std::move(given)), edges(graph, "session"), container(std::move(shared)), options(std::move(chosen)) {}

  Signature signature(std::span<const Edge> fetches, std::span<const Target> targets) const {
    Signature wanted;
    for (const auto& fetch : fetches) wanted.part.fetches.push_back(edges.find(fetch));
    for (const auto& target : targets) {
      for (graph::NodeId id : edges.find(target)) wanted.part.targets.push_back(id);
    }
    auto& nodes = wanted.part.targets;
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    wanted.threads = options.threads > 0 ? options.threads : num_threads();
    return wanted;
  }

  std::shared_ptr<CompiledPart> build(const Signature& wanted) const {
    auto part = std::make_shared<CompiledPart>();
    const graph::ProgramOptions program = runtime::program_options(options, wanted.threads);
    graph::PipelineResult passed =
        run_passes(extract(graph, wanted.part, edges), {.program = program}, program.disable);
    part->reports = std::move(passed.reports);
    part->executable = runtime::Executable::build(std::move(passed.graph), program);
    return part;
  }

  std::shared_ptr<CompiledPart> program(const Signature& wanted) {
    const std::scoped_lock held(mutex);
    const auto found = std::find_if(programs.begin(), programs.end(), [&](const auto& p) { return p.first == wanted; });
    if (found != programs.end()) {
      programs.splice(programs.begin(), programs, found);
      return programs.front().second;
    }
    programs.emplace_front(wanted, build(wanted));
    if (programs.size() > options.cache) programs.pop_back();
    return programs.front().second;
  }

  std::unique_ptr<Slot> slot_for(CompiledPart& part) const {
    if (auto slot = part.take()) return slot;
    auto slot = std::make_unique<Slot>();
    slot->resources.queues = options.queues;
    const Container tensors = container->bindings();
    for (const auto& variable : part.executable->graph().variables) {
      check(tensors.contains(variable.name),
            "[session] expected container '{}' to hold variable '{}' of {}, got none (it has no first value in the "
            "graph)",
            container->name(), variable.name, to_string(variable.type));
    }
    slot->instance = std::make_unique<runtime::Instance>(part.executable, tensors,
                                                         runtime::InstanceOptions{.resources = &slot->resources});
    return slot;
  }

  // Feeds sorted by edge; their types match the graph's, hence the program's.
  std::vector<Tensor> sorted_feeds(std::span<const Feed> feeds, std::vector<graph::ValueId>& ids) const {
    std::vector<std::pair<graph::ValueId, const Tensor*>> all;
    for (const auto& feed : feeds) all.emplace_back(edges.find(feed.edge), &feed.value);
    std::sort(all.begin(), all.end());
    std::vector<Tensor> values;
    for (const auto& [id, value] : all) {
      check(ids.empty() || ids.back() != id, "[session] expected each edge to be fed once, got {} twice",
            edges.describe(id));
      const TensorType& type = graph.value(id).type;
      check(value->defined() && !value->traced(), "[session] expected a tensor of {} with data for {}, got {}",
            to_string(type), edges.describe(id), value->defined() ? "an edge of a graph" : "an empty handle");
      check(value->type() == type, "[session] expected {} to be fed {}, got {}", edges.describe(id), to_string(type),
            to_string(value->type()));
      ids.push_back(id);
      values.push_back(kernels::densify(*value));
    }
    return values;
  }
};

Session::Session(graph::Graph graph, std::shared_ptr<SharedContainer> container, SessionOptions options) {
  verify(graph, "reading");
  check(options.cache > 0, "[session] expected room for at least one program, got a cache of 0");
  if (!container) container = std::make_shared<SharedContainer>("session");
  container->adopt(graph);
  state_ = std::make_unique<State>(std::move(graph), std::move(container), std::move(options));
}

Session::~Session() = default;

TensorList Session::run(std::span<const Edge> fetches, std::span<const Feed> feeds, std::span<const Target> targets) {
  Signature wanted = state_->signature(fetches, targets);
  std::vector<Tensor> inputs = state_->sorted_feeds(feeds, wanted.part.feeds);
  const auto part = state_->program(wanted);
  const Device device = part->executable->device();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check(inputs[i].device() == device, "[session] expected {} on {}, where the program runs, got it on {}",
          state_->edges.describe(wanted.part.feeds[i]), to_string(device), to_string(inputs[i].device()));
  }
  TensorList outputs;
  for (graph::ValueId id : wanted.part.fetches) {
    const TensorType& type = state_->graph.value(id).type;
    outputs.push_back(empty(type.shape, type.dtype, device));
  }
  std::unique_ptr<Slot> slot = state_->slot_for(*part);
  {
    RunLock lock(state_->container->lock(), part->lock_kind());
    slot->resources.waiting = &lock;
    for (Tensor& input : inputs) {
      for (const Tensor& variable : slot->instance->variables()) input = apart_from(variable, input);
    }
    slot->instance->run(inputs, {outputs.data(), outputs.size()});
    slot->resources.waiting = nullptr;
  }
  part->give_back(std::move(slot));
  return outputs;
}

std::string Session::explain(std::initializer_list<Edge> fetches, std::initializer_list<Edge> feeds,
                             std::initializer_list<Target> targets) {
  Signature wanted =
      state_->signature(std::span(fetches.begin(), fetches.size()), std::span(targets.begin(), targets.size()));
  for (const auto& feed : feeds) wanted.part.feeds.push_back(state_->edges.find(feed));
  std::sort(wanted.part.feeds.begin(), wanted.part.feeds.end());
  const auto part = state_->program(wanted);
  return runtime::describe(part->reports) + part->executable->explain();
}

const graph::Graph& Session::graph() const { return state_->graph; }
SharedContainer& Session::container() const { return *state_->container; }

std::size_t Session::programs() const {
  const std::scoped_lock held(state_->mutex);
  return state_->programs.size();
}

}  // namespace starling
