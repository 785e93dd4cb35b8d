#include "starling/autograd/grad_node.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include "starling/autograd/hooks.h"
#include "starling/base/error.h"
#include "starling/base/thread/thread_context.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/scopes/near_scope.h"
#include "starling/tensor/interpreter.h"

namespace starling {
namespace {

// One counter for all threads: a recorded graph may be continued on another thread.
std::atomic<std::uint64_t> next_sequence{0};

Tensor type_only(const Tensor& tensor) {
  Tensor stub = tensor.detach();
  stub.impl()->storage = {};
  return stub;
}

}  // namespace

SavedTensor SavedTensor::input(const Tensor& tensor, bool with_data) {
  SavedTensor saved;
  // Traced values and variables cost nothing to keep, and are identified by handle.
  const bool keep = with_data || tensor.traced() || tensor.is_variable();
  saved.tensor_ = keep ? tensor : type_only(tensor);
  if (tensor.is_variable()) saved.pinned_ = current_interpreter().pin(tensor);
  saved.checked_ = with_data && tensor.impl()->storage;
  if (saved.checked_) saved.version_ = tensor.impl()->storage->version();
  return saved;
}

SavedTensor SavedTensor::output(const Tensor& tensor, bool with_data, int index) {
  SavedTensor saved;
  saved.tensor_ = with_data || tensor.traced() ? tensor.detach() : type_only(tensor);
  saved.output_ = index;
  saved.checked_ = with_data && tensor.impl()->storage;
  if (saved.checked_) saved.version_ = tensor.impl()->storage->version();
  return saved;
}

Tensor SavedTensor::restore(const OpDef& op, GradNode* self) const {
  if (checked_) {
    const auto version = tensor_.impl()->storage->version();
    if (version != version_) [[unlikely]] {
      const std::string& name = tensor_.name();
      fail(
          "[{}] expected the {}{} saved for its gradient to be as it was, got one written in place since (version {}, "
          "was {})",
          op.name, name.empty() ? "" : "variable '" + name + "' of ", to_string(tensor_.type()), version, version_);
    }
  }
  if (output_ < 0) return pinned_ >= 0 ? current_interpreter().pinned(tensor_, pinned_) : tensor_;
  Tensor restored = tensor_.detach();
  if (!is_float(restored.dtype())) return restored;
  TensorExtra& extra = restored.impl()->more();
  extra.requires_grad = true;
  extra.node = Ref<RefCounted>(self);
  extra.output = output_;
  return restored;
}

GradNode::GradNode(const OpDef& op, std::span<const Tensor> inputs, std::span<Tensor> outputs, const Attrs& attrs,
                   std::shared_ptr<const OpDef> kept)
    : op_(op), attrs_(attrs), sequence_(next_sequence++) {
  if (kept) rare_ = std::make_unique<Rare>(Rare{std::move(kept), {}});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = inputs[i];
    inputs_.push_back(SavedTensor::input(input, op.saves & kSavesInputs));
    Edge edge;
    if (input.requires_grad()) {
      if (i < 64) needed_ |= std::uint64_t{1} << i;
      auto* maker = static_cast<GradNode*>(input.impl()->extra->node.get());
      if (maker) {
        edge = {Ref<GradNode>(maker), input.impl()->extra->output, {}};
      } else {
        edge.leaf = Ref<TensorImpl>(input.impl());
      }
    }
    edges_.push_back(std::move(edge));
  }
  for (auto& output : outputs) {
    output_types_.push_back(output.type());
    outputs_.push_back(SavedTensor::output(output, op.saves & kSavesOutputs, static_cast<int>(outputs_.size())));
  }
  if (!outputs.empty() && outputs[0].traced()) traced_value_ = outputs[0].impl()->value;
}

// Releases what a node held iteratively: destroying a long history must not recurse.
struct ReleasedNodes {
  struct Remains {
    SmallVector<SavedTensor, 4> inputs;
    SmallVector<GradNode::Edge, 4> edges;
    std::shared_ptr<const OpDef> kept;
  };
  std::vector<Remains> remains{};
};

GradNode::~GradNode() {
  ReleasedNodes*& released = thread_context().released;
  if (released) {
    released->remains.push_back({std::move(inputs_), std::move(edges_), rare_ ? std::move(rare_->kept) : nullptr});
    return;
  }
  ReleasedNodes own;
  released = &own;
  inputs_.clear();
  edges_.clear();
  rare_.reset();
  while (!own.remains.empty()) {
    const ReleasedNodes::Remains next = std::move(own.remains.back());
    own.remains.pop_back();
  }
  released = nullptr;
}

TensorList GradNode::backward(std::span<const Tensor> grads) const {
  TensorList in, out;
  auto* self = const_cast<GradNode*>(this);
  for (const auto& saved : inputs_) in.push_back(saved.restore(op_, self));
  for (const auto& saved : outputs_) out.push_back(saved.restore(op_, self));
  const auto sample = std::find_if(grads.begin(), grads.end(), [](const Tensor& g) { return g.defined(); });
  std::optional<NearScope> near;
  if (sample != grads.end()) near.emplace(*sample);
  TensorList result = op_.gradient({op_, {in.data(), in.size()}, {out.data(), out.size()}, grads, attrs_, needed_});
  check(result.size() <= edges_.size(), "[{}] expected at most {} gradients, got {}", op_.name, edges_.size(),
        result.size());
  result.resize(edges_.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (!result[i].defined()) continue;
    if (result[i].shape() == in[i].shape() && result[i].dtype() == in[i].dtype()) continue;
    fail("[{}] expected the gradient of input {} to be {}, got {}", op_.name, i, to_string(in[i].type()),
         to_string(result[i].type()));
  }
  return result;
}

std::shared_ptr<GradHooks> GradNode::hooks_of(int output) {
  if (!rare_) rare_ = std::make_unique<Rare>();
  for (const auto& known : rare_->hooks) {
    if (known.output == output) return known.hooks;
  }
  rare_->hooks.push_back({output, std::make_shared<GradHooks>()});
  return rare_->hooks.back().hooks;
}

namespace {

void mark(const Ref<GradNode>& node, std::span<Tensor> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!is_float(outputs[i].dtype())) continue;
    TensorExtra& extra = outputs[i].impl()->more();
    extra.requires_grad = true;
    extra.node = Ref<RefCounted>(node.get());
    extra.output = static_cast<int>(i);
  }
}

}  // namespace

void record(const OpDef& op, std::span<const Tensor> inputs, std::span<Tensor> outputs, const Attrs& attrs) {
  mark(new GradNode(op, inputs, outputs, attrs), outputs);
}

void record(std::shared_ptr<const OpDef> op, std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  const OpDef& def = *op;
  mark(new GradNode(def, inputs, outputs, op::NoAttrs{}, std::move(op)), outputs);
}

std::uint64_t next_grad_sequence() { return next_sequence.load(); }

}  // namespace starling
