#include "starling/kernels/eager.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/base/thread/foreign_lock.h"
#include "starling/base/thread/stop_request.h"
#include "starling/base/thread/thread_context.h"
#include "starling/kernels/cpu/simd/copy.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/on_host.h"
#include "starling/ops/api/device_scope.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/scopes/comm_world.h"
#include "starling/tensor/allocator.h"
#include "starling/tensor/memory_label.h"

namespace starling::kernels {
namespace {

bool reference_only() { return thread_context().reference_only; }

// Cached plan for calls of one signature.
struct Entry {
  const OpDef* op;
  Attrs attrs;
  SmallVector<ArgDesc, 4> in;
  Device device;
  int threads;
  bool reference;
  Types out;
  std::optional<View> view;
  Planned planned;
};

void mix(std::size_t& hash, std::size_t value) { hash = (hash ^ value) * 0x9E3779B97F4A7C15ull + (hash >> 29); }

void mix(std::size_t& hash, const Shape& shape) {
  mix(hash, static_cast<std::size_t>(shape.rank()));
  for (auto d : shape) mix(hash, static_cast<std::size_t>(d));
}

std::size_t signature_hash(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  std::size_t hash = attrs.hash();
  mix(hash, static_cast<std::size_t>(op.id));
  for (const auto& input : inputs) {
    const TensorImpl& impl = *input.impl();
    mix(hash, static_cast<std::size_t>(impl.dtype));
    mix(hash, impl.shape);
    mix(hash, impl.strides);
  }
  return hash;
}

bool matches(const Entry& entry, const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs, Device device,
             int threads) {
  if (entry.op != &op || entry.in.size() != inputs.size() || entry.device != device || entry.threads != threads ||
      entry.reference != reference_only())
    return false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorImpl& impl = *inputs[i].impl();
    const ArgDesc& arg = entry.in[i];
    if (arg.dtype != impl.dtype || !(arg.shape == impl.shape) || !(arg.strides == impl.strides)) return false;
  }
  return entry.attrs == attrs;
}

// Device of values without operands.
Device device_of_scope() {
  const std::optional<Device> scope = current_device();
  return scope && scope->kind != DeviceKind::cpu ? *scope : kCpu;
}

Device common_device(const OpDef& op, std::span<const Tensor> inputs) {
  if (inputs.empty()) return device_of_scope();
  for (const auto& input : inputs)
    check(!input.traced(), "[{}] expected a value that exists, got one of a finished trace", op.name);
  return inputs[0].device();
}

bool on_several_devices(std::span<const Tensor> inputs) {
  for (const auto& input : inputs) {
    if (input.device() != inputs[0].device()) [[unlikely]]
      return true;
  }
  return false;
}

bool is_number(const Tensor& tensor) { return tensor.device() == kCpu && tensor.rank() == 0 && !tensor.traced(); }

// The operands, with numbers of the CPU beside tensors of a device copied there. Anything else is the caller's to move.
TensorList brought_together(const OpDef& op, std::span<const Tensor> inputs) {
  const auto first = std::find_if_not(inputs.begin(), inputs.end(), is_number);
  const Device device = first == inputs.end() ? kCpu : first->device();
  TensorList together;
  for (const auto& input : inputs) {
    if (input.device() == device) {
      together.push_back(input);
      continue;
    }
    check(is_number(input), "[{}] expected all operands on one device, got {} and {}", op.name, to_string(device),
          to_string(input.device()));
    together.push_back(device.kind == DeviceKind::null ? empty({}, input.dtype(), device) : to(input, device));
  }
  return together;
}

// Small direct-mapped cache per thread: a collision replaces the older entry.
class PlanCache {
 public:
  const Entry& get(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) {
    const Device device = common_device(op, inputs);
    const int threads = num_threads();
    auto& slot = slots_[signature_hash(op, inputs, attrs) % kSlots];
    if (op.measure) [[unlikely]] {
      slot = measured(op, inputs, attrs, device, threads);
      return *slot;
    }
    if (slot && matches(*slot, op, inputs, attrs, device, threads)) return *slot;
    slot = make(op, inputs, attrs, device, threads);
    return *slot;
  }

 private:
  static constexpr std::size_t kSlots = 2048;

  static std::unique_ptr<Entry> make(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs, Device device,
                                     int threads) {
    const Types types = types_of(inputs);
    return make(op, inputs, attrs, device, threads, infer(op, {types.data(), types.size()}, attrs));
  }

  // Result shapes that depend on values: they are determined anew in every call.
  static std::unique_ptr<Entry> measured(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                                         Device device, int threads) {
    check(device.kind != DeviceKind::null, "[{}] expected operands with values, got {}", op.name, to_string(device));
    const Types types = types_of(inputs);
    infer(op, {types.data(), types.size()}, attrs);
    TensorList dense_inputs;
    for (const auto& input : inputs) dense_inputs.push_back(to(densify(input), kCpu));
    return make(op, inputs, attrs, device, threads, op.measure({dense_inputs.data(), dense_inputs.size()}, attrs));
  }

  static std::unique_ptr<Entry> make(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs, Device device,
                                     int threads, Types out_types) {
    auto entry = std::make_unique<Entry>();
    entry->op = &op;
    entry->attrs = attrs;
    entry->device = device;
    entry->threads = threads;
    entry->reference = reference_only();
    entry->out = std::move(out_types);
    for (const auto& input : inputs) entry->in.push_back({input.dtype(), input.shape(), input.strides()});
    if (op.view) entry->view = op.view({inputs[0].shape(), inputs[0].strides(), attrs});
    if (entry->view || device.kind == DeviceKind::null) return entry;
    SmallVector<ArgDesc, 4> out;
    for (const auto& type : entry->out) out.push_back(dense(type));
    entry->planned = plan_eager(op, device.kind, attrs, {entry->in.data(), entry->in.size()}, {out.data(), out.size()},
                                {.threads = threads, .reference_only = reference_only()});
    return entry;
  }

  std::unique_ptr<Entry> slots_[kSlots];
};

PlanCache& plan_cache() {
  thread_local auto cache = std::make_unique<PlanCache>();
  return *cache;
}

class Scratch {
 public:
  Scratch(Device device, std::size_t bytes) : device_(device), bytes_(bytes) {
    if (bytes_ > 0) data_ = allocator(device_).allocate(bytes_);
  }
  ~Scratch() {
    if (bytes_ > 0) allocator(device_).deallocate(data_, bytes_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() const { return data_; }

 private:
  Device device_;
  std::size_t bytes_;
  void* data_ = nullptr;
};

Comm* communicator(const Entry& entry) {
  const CommWorld& world = current_world();
  return entry.op->comm ? find_group(world, comm_group(*entry.op, entry.attrs), entry.op->name).comm : world.comm;
}

// Calls over so many elements take longer than another language's threads should wait.
constexpr std::int64_t kLongElements = 1 << 16;

bool takes_long(const Entry& entry, std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  if (entry.op->comm) return true;
  std::int64_t elements = 0;
  for (const auto& input : inputs) elements += input.numel();
  for (const auto& output : outputs) elements += output.numel();
  return elements >= kLongElements;
}

// Address of an operand. One of which every rank stores a piece has no memory here.
void* address_of(const OpDef& op, const Tensor& tensor) {
  const TensorImpl& impl = *tensor.impl();
  if (!impl.storage) [[unlikely]] {
    fail(
        "[{}] expected operands that have memory, got '{}', a {} of which every rank stores a piece: it is for "
        "programs "
        "of the strategy that cut it",
        op.name, tensor.name(), to_string(tensor.type()));
  }
  return impl.address();
}

void run(const Entry& entry, std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  check_stop_request();
  std::optional<ForeignLockReleased> released;
  if (takes_long(entry, inputs, outputs)) released.emplace();
  SmallVector<void*, 8> in;
  SmallVector<void*, 4> out;
  SmallVector<Tensor, 4> copies;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (entry.planned.densify[i]) {
      copies.push_back(densify(inputs[i]));
      in.push_back(copies.back().raw());
    } else {
      in.push_back(address_of(*entry.op, inputs[i]));
    }
  }
  for (const auto& output : outputs) out.push_back(address_of(*entry.op, output));
  const Scratch scratch(entry.device, entry.planned.plan->scratch_bytes);
  RunContext context{nullptr, communicator(entry)};
  entry.planned.plan->run({in.data(), out.data(), scratch.data(), context});
}

class Eager final : public Interpreter {
 public:
  TensorList apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) override {
    if (on_several_devices(inputs)) [[unlikely]] {
      const TensorList together = brought_together(op, inputs);
      return apply(op, {together.data(), together.size()}, attrs);
    }
    const Entry& entry = plan_cache().get(op, inputs, attrs);
    if (entry.view) return {view_of(inputs[0], entry.view->shape, entry.view->strides, entry.view->offset)};
    TensorList outputs;
    const MemoryLabel label(op.name.c_str());
    for (const auto& type : entry.out) outputs.push_back(empty(type.shape, type.dtype, entry.device));
    if (entry.planned.plan) run(entry, inputs, {outputs.data(), outputs.size()});
    return outputs;
  }

  void apply_into(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                  std::span<const Tensor> targets) override {
    if (on_several_devices(inputs)) [[unlikely]] {
      const TensorList together = brought_together(op, inputs);
      return apply_into(op, {together.data(), together.size()}, attrs, targets);
    }
    const Entry& entry = plan_cache().get(op, inputs, attrs);
    check(targets.size() == entry.out.size(), "[{}] expected {} targets, got {}", op.name, entry.out.size(),
          targets.size());
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (targets[i].dtype() != entry.out[i].dtype || !(targets[i].shape() == entry.out[i].shape) ||
          !targets[i].contiguous()) [[unlikely]] {
        fail("[{}] expected to write a dense {}, got {}", op.name, to_string(entry.out[i]),
             to_string(targets[i].type()));
      }
      static_cast<void>(address_of(op, targets[i]));
      check(!targets[i].impl()->storage->read_only(),
            "[{}] expected memory that may be written, got a read-only tensor", op.name);
    }
    if (entry.view || may_not_alias(op, inputs, targets)) {
      TensorList fresh = apply(op, inputs, attrs);
      for (std::size_t i = 0; i < targets.size(); ++i) copy_into(targets[i], densify(fresh[i]));
      return;
    }
    if (entry.planned.plan) run(entry, inputs, targets);
    for (const auto& target : targets) target.impl()->storage->bump_version();
  }

 private:
  // True if a target shares memory with an input other than the one that the op declares to overwrite.
  static bool may_not_alias(const OpDef& op, std::span<const Tensor> inputs, std::span<const Tensor> targets) {
    for (std::size_t t = 0; t < targets.size(); ++t) {
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const bool shared = inputs[i].impl()->storage == targets[t].impl()->storage;
        const bool allowed = op.inplace >= 0 && i == t + static_cast<std::size_t>(op.inplace) &&
                             inputs[i].impl()->offset == targets[t].impl()->offset && inputs[i].contiguous();
        if (shared && !allowed) return true;
      }
    }
    return false;
  }
};

void densify_on_device(const Tensor& tensor, const Tensor& out) {
  static const OpDef& copy = find_op("identity");
  const ArgDesc from{tensor.dtype(), tensor.shape(), tensor.strides()}, to = dense(out.type());
  const Planned planned = plan_kernel(copy, tensor.device().kind, op::NoAttrs{}, {&from, 1}, {&to, 1}, {});
  const Scratch scratch(tensor.device(), planned.plan->scratch_bytes);
  RunContext context;
  void* const in = address_of(copy, tensor);
  void* const result = out.raw();
  planned.plan->run({&in, &result, scratch.data(), context});
}

}  // namespace

Tensor densify(const Tensor& tensor) {
  if (tensor.contiguous()) return tensor;
  Tensor out = empty(tensor.shape(), tensor.dtype(), tensor.device());
  if (tensor.device().kind != DeviceKind::cpu) {
    densify_on_device(tensor, out);
    return out;
  }
  const Shape dense_strides = contiguous_strides(out.shape());
  copy_strided({{tensor.shape().begin(), tensor.shape().end()},
                tensor.raw(),
                {tensor.strides().begin(), tensor.strides().end()},
                out.raw(),
                {dense_strides.begin(), dense_strides.end()},
                static_cast<int>(size_of(tensor.dtype()))});
  return out;
}

ReferenceScope::ReferenceScope() : before_(reference_only()) { thread_context().reference_only = true; }
ReferenceScope::~ReferenceScope() { thread_context().reference_only = before_; }

}  // namespace starling::kernels

// Declared by the room of tensors, which knows no kernels.
starling::Interpreter& starling::eager_interpreter() {
  static kernels::Eager eager;
  return eager;
}
