#include "starling/runtime/execution/instance.h"

#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/resources.h"
#include "starling/ops/def/comm_world.h"
#include "starling/runtime/execution/lane_thread.h"
#include "starling/runtime/execution/late_error.h"
#include "starling/runtime/placed/rendezvous.h"
#include "starling/tensor/allocator.h"
#include "starling/tensor/device_memory.h"

namespace starling::runtime {

struct Instance::Step {
  const kernels::Plan* plan;
  void** in;
  void** out;
  void* scratch;
  const Instruction* instruction;
  bool awaited = false;  // an instruction of another lane waits for this one
  bool late = false;     // `late` and `earlier` as in LateSteps
  int earlier = 0;
};

namespace {

Ref<Storage> make_arena(Device device, std::size_t bytes, const std::shared_ptr<Allocator>& from) {
  if (!from) return new Storage(device, bytes);
  const auto give_back = [from, bytes](void* data) { from->deallocate(data, bytes); };
  return new Storage(device, from->allocate(bytes), bytes, give_back, false);
}

}  // namespace

Instance::Instance(std::shared_ptr<const Executable> executable, const Container& container,
                   const InstanceOptions& options)
    : executable_(std::move(executable)),
      options_(options),
      steps_(static_cast<std::size_t>(executable_->lanes())),
      done_(static_cast<std::size_t>(executable_->lanes())) {
  const Executable& exe = *executable_;
  arena_ = make_arena(exe.device(), exe.arena_bytes(), options_.arena_allocator);
  variables_ = container.bind(exe.graph());
  check_variables();
  for (const auto& constant : exe.graph().constants) {
    constants_.push_back(exe.device().kind == DeviceKind::null ? constant : to(constant, exe.device()));
  }
  late_ = late_steps(exe);
  resolve();
  for (std::size_t lane = 1; lane < steps_.size(); ++lane) {
    if (steps_[lane].empty()) continue;
    const int threads = static_cast<graph::Lane>(lane) == graph::Lane::comm ? 1 : exe.threads();
    others_.push_back(std::make_unique<LaneThread>([this, lane] { run_lane(lane); }, threads));
  }
}

// Other lanes may still be running and using this memory.
Instance::~Instance() {
  for (auto& lane : others_) lane->finish_quietly();
}

void Instance::check_variables() const {
  const Device device = executable_->device();
  for (const auto& variable : variables_) {
    const bool near = variable.device() == device || (options_.part && variable.device().kind == device.kind);
    check(near || device.kind == DeviceKind::null,
          "[instance] expected variable '{}' on {} with the rest of the program, got it on {}", variable.name(),
          to_string(device), to_string(variable.device()));
  }
  for (int assigned : executable_->assigned()) {
    const Tensor& variable = variables_[static_cast<std::size_t>(assigned)];
    check(!variable.impl()->storage->read_only(), "[instance] expected to write variable '{}', got read-only memory",
          variable.name());
  }
}

// A lane that is still running reads the old profiler.
void Instance::set_profiler(Profiler* profiler) {
  for (auto& lane : others_) lane->finish_quietly();
  profiler_ = executable_->device().kind == DeviceKind::cuda ? nullptr : profiler;
  profile_ = profiler_ ? profiler_->watch(executable_) : nullptr;
}

std::size_t Instance::memory_bytes() const { return arena_->bytes(); }

// Builds one table of addresses and remembers which entries change from run to run.
void Instance::resolve() {
  const Executable& exe = *executable_;
  std::size_t operands = 0;
  for (const auto& instruction : exe.instructions()) operands += instruction.in.size() + instruction.out.size();
  addresses_.assign(operands, nullptr);
  input_patches_.resize(exe.graph().inputs.size());
  output_patches_.resize(exe.graph().outputs.size());
  variable_patches_.resize(variables_.size());
  bound_.assign(variables_.size(), nullptr);
  void** next = addresses_.data();
  const auto settle = [&](const Address& place) {
    const auto index = static_cast<std::size_t>(place.index);
    const auto at = [&](void* base) { return base ? static_cast<std::byte*>(base) + place.offset : nullptr; };
    switch (place.kind) {
      case Address::Kind::arena: *next = at(arena_->data()); break;
      case Address::Kind::constant: *next = at(constants_[index].raw()); break;
      case Address::Kind::input: input_patches_[index].push_back({next, place.offset}); break;
      case Address::Kind::output: output_patches_[index].push_back({next, place.offset}); break;
      case Address::Kind::variable: variable_patches_[index].push_back({next, place.offset}); break;
    }
    ++next;
  };
  for (const auto& instruction : exe.instructions()) {
    void** in = next;
    for (const auto& place : instruction.in) settle(place);
    void** out = next;
    for (const auto& place : instruction.out) settle(place);
    void* arena = arena_->data();
    void* scratch = arena ? static_cast<std::byte*>(arena) + instruction.scratch.offset : nullptr;
    steps_[static_cast<std::size_t>(instruction.lane)].push_back(
        {bound(*instruction.plan), in, out, scratch, &instruction});
    if (!late_.any) continue;
    Step& step = steps_[static_cast<std::size_t>(instruction.lane)].back();
    const auto position = static_cast<std::size_t>(&instruction - exe.instructions().data());
    step.late = late_.late[position];
    step.earlier = late_.earlier[position];
    if (step.earlier > 0) last_earlier_ = static_cast<int>(steps_[0].size());
  }
  for (const auto& instruction : exe.instructions()) {
    for (const Wait& wait : instruction.waits) {
      if (wait.count > 0)
        steps_[static_cast<std::size_t>(wait.lane)][static_cast<std::size_t>(wait.count) - 1].awaited = true;
    }
  }
  if (!late_.any) return;
  for (Step& step : steps_[static_cast<std::size_t>(graph::Lane::comm)])
    step.awaited = true;  // next run waits for them too
}

const kernels::Plan* Instance::bound(const kernels::Plan& plan) {
  const auto* open = options_.resources ? dynamic_cast<const kernels::ResourcePlan*>(&plan) : nullptr;
  if (!open) return &plan;
  own_plans_.push_back(open->bind(*options_.resources));
  return own_plans_.back().get();
}

void Instance::put(const std::vector<Patch>& patches, void* base) {
  for (const auto& patch : patches) *patch.slot = static_cast<std::byte*>(base) + patch.offset;
}

void Instance::patch(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  const graph::Graph& graph = executable_->graph();
  check(inputs.size() == graph.inputs.size() && outputs.size() == graph.outputs.size(),
        "[run] expected {} inputs and {} outputs, got {} and {}", graph.inputs.size(), graph.outputs.size(),
        inputs.size(), outputs.size());
  const auto check_operand = [&](const Tensor& given, graph::ValueId value, const char* what, std::size_t i) {
    const TensorType& wanted = graph.value(value).type;
    const bool fits = given.dtype() == wanted.dtype && given.shape() == wanted.shape && given.contiguous() &&
                      given.device() == executable_->device();
    if (fits) return;
    fail("[run] expected {} {} to be a dense {} on {}, got {} on {}", what, i, to_string(wanted),
         to_string(executable_->device()), to_string(given.type()), to_string(given.device()));
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_operand(inputs[i], graph.inputs[i], "input", i);
    put(input_patches_[i], inputs[i].impl()->address());
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    check_operand(outputs[i], graph.outputs[i], "output", i);
    put(output_patches_[i], outputs[i].impl()->address());
  }
  patch_variables();
}

void Instance::patch_variables() {
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    void* address = variables_[i].impl()->address();
    if (address == bound_[i]) continue;
    bound_[i] = address;
    put(variable_patches_[i], address);
  }
}

class Instance::BumpVersions {
 public:
  explicit BumpVersions(Instance& instance) : instance_(instance) {}
  ~BumpVersions() {
    for (int variable : instance_.executable_->assigned()) {
      instance_.variables_[static_cast<std::size_t>(variable)].impl()->storage->bump_version();
    }
  }
  BumpVersions(const BumpVersions&) = delete;
  BumpVersions& operator=(const BumpVersions&) = delete;

 private:
  Instance& instance_;
};

void Instance::run(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  patch(inputs, outputs);
  Comm* comm = options_.comm ? options_.comm : current_world().comm;
  if (comm != comm_) comm_ = comm;    // no write if unchanged: a running lane may be reading it
  const BumpVersions written(*this);  // also if the run fails
  if (executable_->device().kind == DeviceKind::cuda && !options_.part) {
    run_device(inputs, outputs);
  } else if (executable_->threads() == num_threads()) {
    run_host();
  } else {
    const ThreadScope threads(executable_->threads());
    run_host();
  }
}

// Stops at the failing instruction and names it; Cancelled passes through, since the failing device reports the cause.
void Instance::run_part() {
  const Instruction* now = nullptr;
  try {
    for (const auto& step : steps_[0]) {
      now = step.instruction;
      run_step(step, nullptr);
    }
  } catch (const Cancelled&) {
    throw;
  } catch (const std::exception& error) {
    const auto& scope = executable_->graph().node(now->node).scope.str();
    fail("[placed] expected {} to run {}{}, got: {}", to_string(executable_->device()), now->op,
         scope.empty() ? "" : " (in " + scope + ")", error.what());
  }
}

void Instance::run_host() {
  if (options_.part) return run_part();
  if (others_.empty()) {
    for (const auto& step : steps_[0]) run_step(step, nullptr);
    return;
  }
  if (late_.any) return run_late();
  begin_lanes(0);
  try {
    run_lane(0);
  } catch (...) {
    for (auto& lane : others_) lane->finish_quietly();
    throw;
  }
  for (auto& lane : others_) lane->finish_quietly();
  for (auto& lane : others_) lane->finish();  // throws what the lane threw
}

// Starts the other lanes; `ended` instructions of the caller's lane have already run.
void Instance::begin_lanes(int ended) {
  for (auto& done : done_) done.value.store(0, std::memory_order_relaxed);
  done_[0].value.store(ended, std::memory_order_relaxed);
  failed_.store(false, std::memory_order_relaxed);
  for (auto& lane : others_) lane->start();
}

// The comm lane runs its exchanges in order, so those of this run start when the last of the previous run has ended.
// Until then its counts belong to the previous run, and nothing of this run waits for them.
void Instance::run_late() {
  check(!broken_, "[run] expected a program that has not failed, got one that has");
  const bool skip = !pending_;
  if (!behind_) begin_lanes(0);
  int ended = 0;
  try {
    for (const auto& step : steps_[0]) {
      if (!step.late || !skip) {
        if (behind_ && step.earlier > 0) wait_for({graph::Lane::comm, step.earlier});
        if (behind_ && (failed_.load(std::memory_order_acquire) || !step.instruction->waits.empty())) catch_up(ended);
        for (const Wait& wait : step.instruction->waits) wait_for(wait);
        if (failed_.load(std::memory_order_relaxed)) break;
        run_step(step, nullptr);
      }
      ++ended;
      if (behind_ && (ended >= last_earlier_ || comm_lane_ended())) {
        catch_up(ended);
      } else if (!behind_) {
        done_[0].value.fetch_add(1, std::memory_order_release);
        done_[0].value.notify_all();
      }
    }
    if (behind_) catch_up(ended);
    wait_for({graph::Lane::comm, late_.awaited});
  } catch (...) {
    broken_ = true;
    if (!behind_) fail_lane(0);
    for (auto& lane : others_) lane->finish_quietly();
    throw;
  }
  pending_ = behind_ = true;
  ++late_run_;
  if (!failed_.load(std::memory_order_acquire)) return;
  broken_ = true;
  for (auto& lane : others_) lane->finish();  // throws what the lane threw
}

bool Instance::comm_lane_ended() const {
  constexpr auto lane = static_cast<std::size_t>(graph::Lane::comm);
  return done_[lane].value.load(std::memory_order_acquire) >= static_cast<int>(steps_[lane].size());
}

void Instance::catch_up(int ended) {
  end_behind();
  begin_lanes(ended);
}

void Instance::end_behind() {
  behind_ = false;
  for (auto& lane : others_) lane->finish_quietly();
  if (failed_.load(std::memory_order_acquire)) fail_late();
}

void Instance::fail_late() {
  broken_ = true;
  try {
    for (auto& lane : others_) lane->finish();
  } catch (const std::exception& error) {
    throw LateError(fmt::format("[run] expected what call {} of the program left under way to end, got: {}", late_run_,
                                error.what()));
  }
  throw LateError("[run] expected what an earlier call left under way to end, got a failure");
}

void Instance::finish() {
  if (!pending_ || broken_) return;
  const BumpVersions written(*this);
  patch_variables();
  end_behind();
  pending_ = false;
  const ThreadScope threads(executable_->threads());
  for (const auto& step : steps_[0]) {
    if (step.late) run_step(step, nullptr);
  }
}

void Instance::run_lane(std::size_t lane) {
  auto& done = done_[lane].value;
  try {
    for (const auto& step : steps_[lane]) {
      for (const Wait& wait : step.instruction->waits) wait_for(wait);
      if (failed_.load(std::memory_order_relaxed)) return fail_lane(lane);
      run_step(step, nullptr);
      done.fetch_add(1, std::memory_order_release);
      if (step.awaited) done.notify_all();  // a needless wake-up costs as much as a small op
    }
  } catch (...) {
    fail_lane(lane);
    throw;
  }
}

// Wakes the lanes waiting for this one; they see the failure and stop.
void Instance::fail_lane(std::size_t lane) {
  failed_.store(true);
  done_[lane].value.store(static_cast<int>(steps_[lane].size()) + 1);
  done_[lane].value.notify_all();
}

// Spins briefly, then sleeps: the other lane is usually microseconds away, or milliseconds.
void Instance::wait_for(const Wait& wait) {
  auto& done = done_[static_cast<std::size_t>(wait.lane)].value;
  for (int spin = 0; spin < 2000; ++spin) {
    if (done.load(std::memory_order_acquire) >= wait.count) return;
  }
  int seen = done.load(std::memory_order_acquire);
  while (seen < wait.count) {
    done.wait(seen);
    seen = done.load(std::memory_order_acquire);
  }
}

void Instance::run_step(const Step& step, void* stream) {
  kernels::RunContext context{stream, comm_};
  const kernels::Launch launch{step.in, step.out, step.scratch, context};
  if (!profiler_) {
    step.plan->run(launch);
    return;
  }
  const auto position = static_cast<int>(step.instruction - executable_->instructions().data());
  const auto& what = profile_->instructions[static_cast<std::size_t>(position)];
  const auto begin = profiler_->now();
  step.plan->run(launch);
  profiler_->record({what.op.c_str(), what.kernel.c_str(), options_.rank, static_cast<int>(step.instruction->lane),
                     begin, profiler_->now(), profile_, position});
}

// Recordings hold addresses, so each set of operands has its own; data loaders rotate among a few buffers.
void Instance::run_device(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  constexpr std::size_t kMostRecordings = 8;
  std::vector<void*>& key = replay_key_;
  key.clear();
  for (const auto& t : inputs) key.push_back(t.impl()->address());
  for (const auto& t : outputs) key.push_back(t.impl()->address());
  key.insert(key.end(), bound_.begin(), bound_.end());
  for (auto& [known, replay] : replays_) {
    if (known == key) return replay->launch();
  }
  if (replays_.size() == kMostRecordings) replays_.erase(replays_.begin());
  auto replay = make_cuda_replay(executable_->device().index);
  check(replay != nullptr, "[run] expected a build with CUDA for a program on {}, got one without",
        to_string(executable_->device()));
  replay->record([&](void* stream) {
    for (const auto& step : steps_[0]) run_step(step, stream);
  });
  replay->launch();
  replays_.emplace_back(key, std::move(replay));
}

}  // namespace starling::runtime
